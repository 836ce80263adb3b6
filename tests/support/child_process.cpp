// SPDX-License-Identifier: MIT
// Child processes and their channels.
#include "support/child_process.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>

namespace {

bool heir_of_busy_threads = false;

}  // namespace

/// LeakSanitizer asks this at the end of a process.
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return heir_of_busy_threads ? 1 : 0; }

namespace support {

namespace {

int run(std::function<int(Channel&)> const& body, Channel& channel) {
  try {
    return body(channel);
  } catch (std::exception const& error) {
    std::cerr << "child process: " << error.what() << std::endl;
  } catch (...) {
    std::cerr << "child process: a requirement failed" << std::endl;
  }
  return ChildProcess::threw;
}

}  // namespace

std::pair<Channel, Channel> Channel::pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw_errno("socketpair");
  return {Channel{Descriptor{ends[0]}}, Channel{Descriptor{ends[1]}}};
}

void Channel::send_line(std::string_view line) {
  send_all(stream_.get(), std::string{line} + '\n', Clock::now() + Milliseconds{30'000});
}

std::optional<std::string> Channel::read_line(Milliseconds timeout) {
  auto const deadline = Clock::now() + timeout;
  for (;;) {
    if (auto const end = buffer_.find('\n'); end != std::string::npos) {
      auto line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (!fill(deadline))
      break;
  }
  if (!ended_ || buffer_.empty())
    return std::nullopt;
  return std::exchange(buffer_, {});
}

std::string Channel::read_all(Milliseconds timeout) {
  for (auto const deadline = Clock::now() + timeout; fill(deadline);)
    continue;
  return std::exchange(buffer_, {});
}

void Channel::close_writing() {
  ::shutdown(stream_.get(), SHUT_WR);
}

bool Channel::fill(Clock::time_point deadline) {
  if (ended_)
    return false;
  try {
    if (!wait_ready(stream_.get(), POLLIN, deadline))
      return false;
    ended_ = receive_some(stream_.get(), buffer_, deadline) == 0;
  } catch (std::system_error const& error) {
    if (error.code() != std::errc::connection_reset)
      throw;
    ended_ = true;
  }
  return !ended_;
}

std::ostream& operator<<(std::ostream& out, ExitStatus const& status) {
  if (status.signal)
    return out << "killed by signal " << *status.signal;
  return out << "exited with " << status.code.value_or(-1);
}

void ChildProcess::inherits_of_busy_threads() { heir_of_busy_threads = true; }

ChildProcess::ChildProcess(std::function<int()> const& body, Ending ending)
    : ChildProcess{[&body](Channel&) { return body(); }, ending} {}

ChildProcess::ChildProcess(std::function<int(Channel&)> const& body, Ending ending) {
  auto [ours, theirs] = Channel::pair();
  child_ = Child::fork([&, &ours = ours, &theirs = theirs] {
    ours.close();
    int const code = run(body, theirs);
    if (ending == Ending::orderly)
      std::exit(code);
    std::cout.flush();
    std::fflush(nullptr);
    return code;
  });
  channel_ = std::move(ours);
}

ChildProcess::ChildProcess(Program const& program) {
  auto [ours, theirs] = Channel::pair();
  std::vector<std::string> words{program.path};
  words.insert(words.end(), program.arguments.begin(), program.arguments.end());
  int const stream = theirs.descriptor();
  child_ = execute({.words = words, .environment = program.environment, .input = stream, .output = stream,
                    .errors = program.with_errors ? stream : -1});
  channel_ = std::move(ours);
}

bool ChildProcess::alive() {
  return !wait(Milliseconds{0});
}

std::optional<ExitStatus> ChildProcess::wait(Milliseconds timeout) {
  auto const status = child_.wait(Clock::now() + timeout);
  if (!status)
    return std::nullopt;
  return WIFSIGNALED(*status) ? ExitStatus::killed(WTERMSIG(*status)) : ExitStatus::exited(WEXITSTATUS(*status));
}

}  // namespace support
