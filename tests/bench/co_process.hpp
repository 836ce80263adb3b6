// SPDX-License-Identifier: MIT
// A program that measures in another language: a line in, a line of numbers out.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <sys/types.h>

namespace bench {

class CoProcess {
 public:
  /// Starts `words` through the search path. ready() tells whether it came up.
  explicit CoProcess(std::vector<std::string> const& words);
  CoProcess(CoProcess&& other) noexcept;
  CoProcess& operator=(CoProcess&&) = delete;
  ~CoProcess();

  /// Whether it has said so within its first line.
  bool ready();
  void ask(std::string const& line);
  /// The numbers of its next line; throws when it has died.
  std::vector<std::int64_t> numbers();

 private:
  std::string line();

  pid_t pid_{-1};
  std::FILE* to_{nullptr};
  std::FILE* from_{nullptr};
};

}  // namespace bench
