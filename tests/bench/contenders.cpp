// SPDX-License-Identifier: MIT
#include "contenders.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include <mortise/mortise.hpp>

namespace bench {
namespace {

class PassedElement final : public Contender {
 public:
  using Counter = std::shared_ptr<std::atomic<std::uint64_t>>;

  PassedElement(Endpoint const& endpoint, std::string name, Counter last)
      : raw_{endpoint}, name_{std::move(name)}, last_{std::move(last)} {}
  std::uint64_t acquire() override {
    raw_.command({"BLPOP", name_, "0"});
    return ++*last_;
  }
  void release() override { raw_.command({"RPUSH", name_, "1"}); }

 private:
  Raw raw_;
  std::string name_;
  Counter last_;
};

class Library final : public Contender {
 public:
  Library(std::shared_ptr<mortise::Client> client, std::string const& name)
      : client_{std::move(client)}, lock_{*client_, name, {.ttl = ttl}} {
    static_cast<void>(mortise::Lock{*client_, "bench:warm"}.acquire());  // threads, connections and scripts
  }
  std::uint64_t acquire() override { return lease_.emplace(lock_.acquire()).fence().value; }
  void release() override {
    lease_->release();
    lease_.reset();
  }

 private:
  std::shared_ptr<mortise::Client> client_;
  mortise::Lock<> lock_;
  std::optional<mortise::Lease> lease_{};
};

}  // namespace

MakeContender passed_element(Endpoint const& endpoint, std::string const& name) {
  Raw{endpoint}.command({"RPUSH", name, "1"});
  return [endpoint, name, last = std::make_shared<std::atomic<std::uint64_t>>()](std::size_t) {
    return std::make_unique<PassedElement>(endpoint, name, last);
  };
}

MakeContender own_clients(Endpoint const& endpoint, std::string const& name) {
  return [endpoint, name](std::size_t) {
    return std::make_unique<Library>(std::make_shared<mortise::Client>(endpoint.uri()), name);
  };
}

MakeContender one_client(Endpoint const& endpoint, std::string const& name) {
  return [client = std::make_shared<mortise::Client>(endpoint.uri()), name](std::size_t) {
    return std::make_unique<Library>(client, name);
  };
}

}  // namespace bench
