// SPDX-License-Identifier: MIT
// What was measured: printed as Markdown for people, written as CSV for programs.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace bench {

inline constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

/// One figure, where there is a floor also in proportion to it.
struct Cell {
  std::string measure{};  ///< with its unit
  double value{nothing};
  double ratio{nothing};
  bool missed{false};     ///< it was to be better than that
};

struct Row {
  std::string what{};
  std::vector<Cell> cells{};
};

/// The rows of a table all have the same measures.
struct Table {
  std::string title{};
  std::string note{};  ///< what is to be reached
  std::vector<Row> rows{};
};

void print_markdown(Table const& table);
void append_csv(Table const& table, std::string const& file);

}  // namespace bench
