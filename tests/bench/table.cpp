// SPDX-License-Identifier: MIT
#include "table.hpp"

#include <cmath>
#include <cstdio>
#include <fstream>

namespace bench {
namespace {

std::string number(double value) {
  if (std::isnan(value)) return "";
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value);
  return text;
}

std::string shown(Cell const& cell) {
  auto text = number(cell.value);
  if (!std::isnan(cell.ratio)) text += (text.empty() ? "" : " / ") + number(cell.ratio) + " ×";
  return cell.missed ? "**" + text + "** (missed)" : text;
}

std::string quoted(std::string const& text) { return '"' + text + '"'; }

}  // namespace

void print_markdown(Table const& table) {
  std::printf("\n### %s\n\n", table.title.c_str());
  if (!table.note.empty()) std::printf("%s\n\n", table.note.c_str());
  if (table.rows.empty()) return;
  std::string head = "| |";
  std::string rule = "|---|";
  for (auto const& cell : table.rows.front().cells) {
    head += ' ' + cell.measure + " |";
    rule += "---:|";
  }
  std::printf("%s\n%s\n", head.c_str(), rule.c_str());
  for (auto const& row : table.rows) {
    std::printf("| %s |", row.what.c_str());
    for (auto const& cell : row.cells) std::printf(" %s |", shown(cell).c_str());
    std::printf("\n");
  }
  std::fflush(stdout);
}

void append_csv(Table const& table, std::string const& file) {
  std::ofstream out{file, std::ios::app};
  if (out.tellp() == 0) out << "table,what,measure,value,ratio\n";
  for (auto const& row : table.rows)
    for (auto const& cell : row.cells) {
      out << quoted(table.title) << ',' << quoted(row.what) << ',' << quoted(cell.measure) << ',';
      if (!std::isnan(cell.value)) out << cell.value;
      out << ',';
      if (!std::isnan(cell.ratio)) out << cell.ratio;
      out << '\n';
    }
}

}  // namespace bench
