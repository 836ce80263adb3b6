// SPDX-License-Identifier: MIT
// Whether a sanitizer is built in: such builds are slower, get less to do, and nobody looks at their processor time.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define MORTISE_TEST_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define MORTISE_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MORTISE_TEST_ASAN 1
#elif __has_feature(thread_sanitizer)
#define MORTISE_TEST_TSAN 1
#endif
#endif

namespace support {

#if defined(MORTISE_TEST_ASAN) || defined(MORTISE_TEST_TSAN)
inline constexpr bool instrumented = true;
#else
inline constexpr bool instrumented = false;
#endif

/// AddressSanitizer's allocator has locks of its own, and a child that inherits one of them locked waits for it for ever: a
/// test that forks while other threads allocate is hidden by this tag where it cannot tell that from a fault of the library.
#if defined(MORTISE_TEST_ASAN)
inline constexpr bool forks_beside_busy_threads = false;
inline constexpr char const* forking_beside_busy_threads = "[.asan]";
#else
inline constexpr bool forks_beside_busy_threads = true;
inline constexpr char const* forking_beside_busy_threads = "";
#endif

/// ThreadSanitizer takes a thread that a forked child starts in the place of one of its parent's for that one, and gives up.
#if defined(MORTISE_TEST_TSAN)
inline constexpr char const* threads_in_children_of_threads = "[.tsan]";
#else
inline constexpr char const* threads_in_children_of_threads = "";
#endif

}  // namespace support
