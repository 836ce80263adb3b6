// SPDX-License-Identifier: MIT
// A log that threads and processes of a lock test write together: who believed what, and when.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace support {

/// What a record tells. Logged so that a belief on record is never longer than the real one: the begin after the
/// grant, the end before the release.
enum class Happening : std::uint32_t {
  nothing,          ///< a record that was begun and never finished
  call_begin,       ///< of an acquisition or any other call; until: its deadline, 0 for none
  call_end,         ///< of the same thread's last call_begin for that name
  belief_begin,     ///< granted; until: valid until then, 0 for no end of its own
  belief_renewed,   ///< until: the new valid-until
  belief_end,       ///< about to be released, or held() was seen false
  lost_told,        ///< the holder was told of the loss: ends the belief as well
  process_killed,   ///< by -9; its beliefs end by themselves
  process_paused,   ///< SIGSTOP: lateness during the pause is nobody's fault
  process_resumed,
};

/// Nanoseconds on the clock that counts suspension, CLOCK_BOOTTIME: comparable between processes of one machine.
std::int64_t boottime_ns();

struct HistoryRecord {
  Happening what = Happening::nothing;
  pid_t process = 0;
  std::int64_t thread = 0;
  std::uint64_t name = 0;
  std::uint64_t fence = 0;
  std::int64_t at = 0;
  std::int64_t until = 0;
};

/// Wait-free for writers: one atomic step and a copy into shared memory, so that what a killed process wrote stays.
class HistoryLog {
public:
  /// A log in a file, made if need be; a program opens the same path. Forked children just use the object.
  explicit HistoryLog(std::filesystem::path const& file, std::size_t capacity = 1'000'000);
  /// A log in memory, shared with children forked later.
  explicit HistoryLog(std::size_t capacity = 1'000'000);
  HistoryLog(HistoryLog const&) = delete;
  HistoryLog& operator=(HistoryLog const&) = delete;
  ~HistoryLog();

  /// Adds a record of this thread, now.
  void add(Happening what, std::uint64_t name = 0, std::uint64_t fence = 0, std::int64_t until = 0);
  /// Adds a record about another process, now: killed, paused, resumed.
  void add_about(pid_t process, Happening what);
  /// Adds a record as it is.
  void add(HistoryRecord const& record);
  /// All finished records in the order of their beginning. Throws std::length_error when the log was too small.
  std::vector<HistoryRecord> records() const;
  /// How many finished records tell this. Throws like records().
  std::size_t count(Happening what) const;

private:
  struct Slot;
  std::size_t begun() const;
  void map(int fd);

  std::size_t capacity_;
  std::size_t bytes_;
  std::atomic<std::uint64_t>* next_ = nullptr;
  Slot* slots_ = nullptr;
};

}  // namespace support
