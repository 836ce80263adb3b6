// SPDX-License-Identifier: MIT
// What the snippets of the documentation take for granted around them.
#pragma once

#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <string_view>

#include <mortise/mortise.hpp>
#include <mortise/testing/memory_backend.hpp>
#if __has_include(<openssl/ssl.h>)
#include <mortise/tls.hpp>
#endif

using namespace std::chrono_literals;

struct Request {
  mortise::Fence fence;
};

extern mortise::Client redis;
extern mortise::Lease lease;
extern int data;

void pay(mortise::Fence fence);
void write(int data, mortise::Fence fence);
void cancel_work();
void stop_work();
bool work_left();
void do_some(mortise::Fence fence);
void publish(mortise::Fence fence);
bool refuse(std::string_view reason);
bool apply(Request const& request);
