// SPDX-License-Identifier: MIT
// Everything that users name, but for TLS and testing, which have headers of their own.
#pragma once

#include <mortise/acquire_all.hpp>
#include <mortise/client.hpp>
#include <mortise/error.hpp>
#include <mortise/fence.hpp>
#include <mortise/fencing.hpp>
#include <mortise/leader.hpp>
#include <mortise/lease.hpp>
#include <mortise/leases.hpp>
#include <mortise/lock.hpp>
#include <mortise/observer.hpp>
#include <mortise/options.hpp>
#include <mortise/quorum.hpp>
#include <mortise/recursive_lock.hpp>
#include <mortise/semaphore.hpp>
#include <mortise/shared_lock.hpp>
#include <mortise/version.hpp>
