// SPDX-License-Identifier: MIT
// mortise-bench: what the library costs, in proportion to raw hiredis in the same process. run.sh starts its server.
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include "measurements.hpp"

namespace {

struct Measurement {
  std::string_view name;
  std::vector<bench::Table> (*run)(bench::Setting const&);
};

constexpr Measurement measurements[] = {
    {"footprint", bench::footprint},
    {"pair", bench::pair},
    {"handoff", bench::handoff},
    {"rooms", bench::rooms},
    {"threads", bench::threads_of_a_client},
    {"renewal", bench::renewal},
    {"quorum", bench::quorum},
    {"others", bench::others},
};

int usage() {
  std::cerr << "usage: mortise-bench --port N --socket PATH [--quick] [--csv FILE] [--others FOLDER] [--node N]...\n"
               "       [footprint|pair|handoff|rooms|threads|renewal|quorum|others]...\n"
               "All data of the Redis server on 127.0.0.1:N, which also listens at PATH, is deleted. A quorum has five more\n"
               "by --node; they are stopped and continued.\n";
  return 64;
}

}  // namespace

int main(int argc, char** argv) try {
  bench::Setting setting{.tcp = {.host = "127.0.0.1"}};
  std::string csv;
  std::vector<std::string_view> wanted;
  for (int i = 1; i < argc; ++i) {
    std::string_view const argument = argv[i];
    bool const valued = argument == "--port" || argument == "--socket" || argument == "--csv" || argument == "--others" || argument == "--node";
    if (valued && i + 1 == argc) return usage();
    if (argument == "--port")
      setting.tcp.port = std::atoi(argv[++i]);
    else if (argument == "--socket")
      setting.local.path = argv[++i];
    else if (argument == "--node")
      setting.nodes.push_back({.host = "127.0.0.1", .port = std::atoi(argv[++i])});
    else if (argument == "--csv")
      csv = argv[++i];
    else if (argument == "--others")
      setting.others = argv[++i];
    else if (argument == "--quick")
      setting.quick = true;
    else if (std::ranges::find(measurements, argument, &Measurement::name) != std::end(measurements))
      wanted.push_back(argument);
    else
      return usage();
  }
  if (setting.tcp.port == 0 || setting.local.path.empty()) return usage();

  for (auto const& measurement : measurements) {
    if (!wanted.empty() && std::ranges::find(wanted, measurement.name) == wanted.end()) continue;
    for (auto const& table : measurement.run(setting)) {
      bench::print_markdown(table);
      if (!csv.empty()) bench::append_csv(table, csv);
    }
  }
  return 0;
} catch (std::exception const& error) {
  std::cerr << "mortise-bench: " << error.what() << '\n';
  return 1;
}
