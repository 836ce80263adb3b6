// SPDX-License-Identifier: MIT
// What this process uses, from /proc.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace bench {

using Seconds = std::chrono::duration<double>;

double resident_kib();
std::size_t threads();

/// Time on a processor: of the whole process, of the calling thread, and of all living threads with that name.
Seconds process_time();
Seconds thread_time();
Seconds time_of_threads(std::string const& name);

}  // namespace bench
