// SPDX-License-Identifier: MIT
#include "co_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace bench {
namespace {

struct Pipe {
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error{errno, std::generic_category(), "pipe"};
  }
  int ends[2];
};

}  // namespace

CoProcess::CoProcess(std::vector<std::string> const& words) {
  Pipe const in;
  Pipe const out;
  std::vector<char*> arguments;
  for (auto const& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.ends[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  if (::posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ) != 0) pid_ = -1;
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in.ends[0]);
  ::close(out.ends[1]);
  to_ = ::fdopen(in.ends[1], "w");
  from_ = ::fdopen(out.ends[0], "r");
}

CoProcess::CoProcess(CoProcess&& other) noexcept
    : pid_{std::exchange(other.pid_, -1)}, to_{std::exchange(other.to_, nullptr)}, from_{std::exchange(other.from_, nullptr)} {}

CoProcess::~CoProcess() {
  if (to_ != nullptr) std::fclose(to_);  // the end of its input is the end of it
  if (from_ != nullptr) std::fclose(from_);
  if (pid_ > 0) {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
}

bool CoProcess::ready() { return pid_ > 0 && line() == "ready"; }

void CoProcess::ask(std::string const& question) {
  std::fprintf(to_, "%s\n", question.c_str());
  std::fflush(to_);
}

std::vector<std::int64_t> CoProcess::numbers() {
  std::istringstream words{line()};
  std::vector<std::int64_t> result;
  for (std::int64_t number; words >> number;) result.push_back(number);
  if (result.empty()) throw std::runtime_error{"another client's program gave no figures"};
  return result;
}

std::string CoProcess::line() {
  char* text = nullptr;
  std::size_t size = 0;
  auto const length = ::getline(&text, &size, from_);
  std::string result{text, length > 0 ? static_cast<std::size_t>(length) : 0};
  std::free(text);
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

}  // namespace bench
