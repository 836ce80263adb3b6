// SPDX-License-Identifier: MIT
// URIs of Sentinel groups and clusters, and options that belong to one topology alone.
#include <string>
#include <vector>

#include <mortise/quorum.hpp>
#include <mortise/topologies.hpp>

#include "refusal.hpp"
#include "support/catch.hpp"

using mortise::ClientOptions;
using mortise::detail::apply;
using mortise::detail::check_options_for;
using mortise::detail::parse_uri;
using mortise::detail::Uri;
using support::contains;

namespace {

using Servers = std::vector<Uri::Server>;

std::string refused_group(std::string const& uri) {
  CAPTURE(uri);
  return refusal([&] { (void)parse_uri(uri); });
}

}  // namespace

TEST_CASE("a Sentinel URI gives Sentinels, service and database, or their defaults") {
  auto const uri = parse_uri("redis+sentinel://user:a%2Cb%40@one:1,two,[::1]:3/my%2Fgroup/5?command_timeout=3s");
  CHECK(uri.scheme == Uri::Scheme::sentinel);
  CHECK(uri.servers == Servers{{"one", 1}, {"two", 26379}, {"::1", 3}});
  CHECK(uri.service == "my/group");
  CHECK(uri.db == 5);
  CHECK(uri.username == "user");
  CHECK(uri.password == "a,b@");
  CHECK(uri.endpoint() == "one:1,two:26379,[::1]:3/my/group");
  CHECK(parse_uri("REDIS+SENTINEL://h/main/").db == 0);
  CHECK(parse_uri("redis+sentinel://h/main?db=7").db == 7);
}

TEST_CASE("a cluster URI gives some of its nodes, each once") {
  auto const uri = parse_uri("redis+cluster://:word@one,two:7001,one:6379,[2001:db8::7]");
  CHECK(uri.scheme == Uri::Scheme::cluster);
  CHECK(uri.servers == Servers{{"one", 6379}, {"two", 7001}, {"2001:db8::7", 6379}});
  CHECK(uri.password == "word");
  CHECK(uri.endpoint() == "one:6379,two:7001,[2001:db8::7]:6379");
  CHECK(parse_uri("redis+cluster://h/0").db == 0);
}

TEST_CASE("a group URI that lacks a part or has one too many is refused by that part's name") {
  for (std::string const uri : {"redis+sentinel://h", "redis+sentinel://h/", "redis+sentinel://h//3", "redis+sentinel://h?db=3"})
    CHECK_THAT(refused_group(uri), contains("service: is empty"));
  CHECK_THAT(refused_group("redis+sentinel://h/s/x"), contains("db: must be a number"));
  CHECK_THAT(refused_group("redis+sentinel://h/s/1/2"), contains("db: must be a number"));
  CHECK_THAT(refused_group("redis+sentinel://h/s/1?db=2"), contains("db: given twice"));
  for (std::string const uri : {"redis+sentinel:///s", "redis+sentinel://a,,b/s", "redis+cluster://a,", "redis+cluster://,a", "redis+cluster://u:p@"})
    CHECK_THAT(refused_group(uri), contains("host: is empty"));
  CHECK_THAT(refused_group("redis+cluster://a:1,b:0"), contains("port: must be a number from 1 to 65535"));
  CHECK_THAT(refused_group("redis+cluster://a,b/1"), contains("a cluster has only database 0"));
  CHECK_THAT(refused_group("redis+cluster://a?db=4"), contains("a cluster has only database 0"));
}

TEST_CASE("no part of a password shows in the refusal of a group URI") {
  for (std::string const word : {"hunter2,x", "hunter2/x", "hunter2@x", "hunter2:x@y", "hun#ter2", "hunter2?x"})
    for (std::string const& uri : {"redis+sentinel://:" + word + "@h:1,i:2/s/x", "redis+cluster://:" + word + "@h:1,i:0/3", "redis+sentinel://h,i/s?sentinel_password=" + word + "&db=x"})
      CHECK_THAT(refused_group(uri), !contains("hunter2") && !contains("hun"));
}

TEST_CASE("the Sentinels' own credentials come from the URI, percent-decoded, or from the options, which win") {
  ClientOptions options;
  auto const uri = parse_uri("redis+sentinel://u:p@h/s?sentinel_username=watch%40&sentinel_password=a%26b");
  apply(uri, options);
  CHECK(options.sentinel_username == "watch@");
  CHECK(options.sentinel_password == "a&b");
  CHECK(options.username == "u");
  CHECK(options.password == "p");
  options.sentinel_password = "mine";
  apply(uri, options);
  CHECK(options.sentinel_password == "mine");
  CHECK_NOTHROW(check_options_for(uri, options));
}

TEST_CASE("an option that means nothing for a topology is refused by name") {
  ClientOptions options;
  options.sentinel_password = "hunter2";
  for (std::string const uri : {"redis://h", "unix:///s", "redis+cluster://h"})
    CHECK_THAT(refusal([&] { check_options_for(parse_uri(uri), options); }), contains("sentinel_password") && contains("redis+sentinel://") && !contains("hunter2"));
  ClientOptions tracking;
  tracking.tracking = true;
  CHECK_THAT(refusal([&] { check_options_for(parse_uri("redis+cluster://h"), tracking); }), contains("tracking") && contains("cluster"));
  CHECK_NOTHROW(check_options_for(parse_uri("redis+sentinel://h/s"), tracking));
}

TEST_CASE("a quorum of groups is refused, and so are credentials for Sentinels it does not have") {
  for (std::string const uri : {"redis+sentinel://:hunter2@h/s", "redis+cluster://:hunter2@h,i"})
    CHECK_THAT(refusal([&] { mortise::Quorum{{"redis://a", uri, "redis://b"}}; }), contains("one server") && contains("h:") && !contains("hunter2"));
  CHECK_THAT(refusal([] { mortise::Quorum{{"redis://a", "redis://b?sentinel_password=hunter2"}}; }), contains("sentinel_password") && !contains("hunter2"));
}
