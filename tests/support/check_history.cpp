// SPDX-License-Identifier: MIT
// The judge: one pass that follows calls and beliefs, then one per rule.
#include "support/check_history.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace support {

namespace {

constexpr auto never = std::numeric_limits<std::int64_t>::max();

// A time during which somebody believed that he holds.
struct Stretch {
  std::uint64_t name;
  std::uint64_t fence;
  pid_t process;
  std::int64_t begin;
  std::int64_t end;
};

struct Grant {
  std::uint64_t name;
  std::uint64_t fence;
  pid_t process;
  std::int64_t asked;
  std::int64_t granted;
};

class Judge {
public:
  Judge(std::vector<HistoryRecord> records, HistoryRules const& rules);
  std::vector<std::string> verdict();

private:
  using Call = std::tuple<pid_t, std::int64_t, std::uint64_t>;    // process, thread, name
  using Belief = std::tuple<pid_t, std::uint64_t, std::uint64_t>;  // process, name, fence
  struct Span {
    std::int64_t begin;
    std::int64_t until;
  };

  void find_pauses();
  std::int64_t paused(pid_t process, std::int64_t from, std::int64_t to) const;
  void follow(HistoryRecord const& record);
  void end_call(HistoryRecord const& record);
  void begin_belief(HistoryRecord const& record);
  void renew_belief(HistoryRecord const& record);
  void end_belief(HistoryRecord const& record);
  void forget_process(pid_t process);
  void keep(Belief const& belief, Span const& span, std::int64_t end);
  void finish();
  void check_exclusion();
  void check_fences();
  void report(std::string sentence) { violations_.push_back(std::move(sentence)); }
  std::string time(std::int64_t at) const;

  std::vector<HistoryRecord> records_;
  HistoryRules rules_;
  std::int64_t first_ = 0;
  std::map<pid_t, std::vector<Span>> pauses_{};
  std::map<Call, Span> calls_{};
  std::map<Call, std::int64_t> asked_{};
  std::map<Belief, Span> beliefs_{};
  std::vector<Stretch> stretches_{};
  std::vector<Grant> grants_{};
  std::vector<std::string> violations_{};
};

std::string milliseconds(std::int64_t ns) {
  char text[48];
  std::snprintf(text, sizeof text, "%.3f ms", static_cast<double>(ns) / 1e6);
  return text;
}

std::string holder(pid_t process, std::uint64_t fence) {
  return "process " + std::to_string(process) + " (fence " + std::to_string(fence) + ")";
}

std::string named(std::uint64_t name) {
  return "name " + std::to_string(name);
}

std::int64_t end_of(std::int64_t until) {
  return until == 0 ? never : until;
}

Judge::Judge(std::vector<HistoryRecord> records, HistoryRules const& rules)
    : records_{std::move(records)}, rules_{rules} {
  std::ranges::stable_sort(records_, {}, &HistoryRecord::at);
  first_ = records_.empty() ? 0 : records_.front().at;
  find_pauses();
}

std::string Judge::time(std::int64_t at) const {
  return at == never ? "for ever" : "at " + milliseconds(at - first_);
}

std::vector<std::string> Judge::verdict() {
  for (auto const& record : records_)
    follow(record);
  finish();
  check_exclusion();
  if (rules_.holders == 1)
    check_fences();
  return std::move(violations_);
}

void Judge::find_pauses() {
  for (auto const& record : records_) {
    auto& spans = pauses_[record.process];
    bool const open = !spans.empty() && spans.back().until == never;
    if (record.what == Happening::process_paused && !open)
      spans.push_back({record.at, never});
    else if (record.what == Happening::process_resumed && open)
      spans.back().until = record.at;
  }
}

std::int64_t Judge::paused(pid_t process, std::int64_t from, std::int64_t to) const {
  std::int64_t sum = 0;
  if (auto const found = pauses_.find(process); found != pauses_.end())
    for (auto const& span : found->second)
      sum += std::max<std::int64_t>(0, std::min(span.until, to) - std::max(span.begin, from));
  return sum;
}

void Judge::follow(HistoryRecord const& record) {
  Call const call{record.process, record.thread, record.name};
  switch (record.what) {
    case Happening::call_begin:
      calls_[call] = {record.at, record.until};
      asked_[call] = record.at;
      break;
    case Happening::call_end: return end_call(record);
    case Happening::belief_begin: return begin_belief(record);
    case Happening::belief_renewed: return renew_belief(record);
    case Happening::belief_end:
    case Happening::lost_told: return end_belief(record);
    case Happening::process_killed: return forget_process(record.process);
    case Happening::process_paused:
    case Happening::process_resumed:
    case Happening::nothing: break;
  }
}

void Judge::end_call(HistoryRecord const& record) {
  auto const found = calls_.find({record.process, record.thread, record.name});
  if (found == calls_.end())
    return;
  auto const [begin, deadline] = found->second;
  calls_.erase(found);
  auto const late = record.at - end_of(deadline) - paused(record.process, begin, record.at);
  if (deadline != 0 && late > rules_.call_slack.count())
    report("deadline: a call of process " + std::to_string(record.process) + " for " + named(record.name) +
           ", begun " + time(begin) + ", ended " + milliseconds(late) + " after its deadline");
}

void Judge::begin_belief(HistoryRecord const& record) {
  Call const call{record.process, record.thread, record.name};
  Belief const belief{record.process, record.name, record.fence};
  auto const asked = asked_.extract(call);
  grants_.push_back({record.name, record.fence, record.process, asked ? asked.mapped() : record.at, record.at});
  if (auto const before = beliefs_.extract(belief))
    keep(belief, before.mapped(), record.at);
  beliefs_[belief] = {record.at, record.until};
}

void Judge::renew_belief(HistoryRecord const& record) {
  Belief const belief{record.process, record.name, record.fence};
  auto const found = beliefs_.find(belief);
  if (found == beliefs_.end())
    return;
  auto& span = found->second;
  if (record.at > end_of(span.until)) {
    keep(belief, span, record.at);
    span.begin = record.at;
  }
  span.until = record.until;
}

void Judge::end_belief(HistoryRecord const& record) {
  Belief const belief{record.process, record.name, record.fence};
  auto const ended = beliefs_.extract(belief);
  if (!ended)
    return;
  auto const span = ended.mapped();
  keep(belief, span, record.at);
  if (record.what != Happening::lost_told || span.until == 0)
    return;
  auto const late = record.at - span.until - paused(record.process, span.begin, record.at);
  if (late > rules_.loss_slack.count())
    report("loss: " + holder(record.process, record.fence) + " was told that " + named(record.name) + " is lost " +
           milliseconds(late) + " after its validity ended");
}

void Judge::forget_process(pid_t process) {
  std::erase_if(calls_, [process](auto const& call) { return std::get<0>(call.first) == process; });
  std::erase_if(beliefs_, [&](auto const& entry) {
    bool const dead = std::get<0>(entry.first) == process;
    if (dead)
      keep(entry.first, entry.second, never);
    return dead;
  });
}

void Judge::keep(Belief const& belief, Span const& span, std::int64_t end) {
  auto const& [process, name, fence] = belief;
  auto const last = std::min(end, end_of(span.until));
  if (last > span.begin)
    stretches_.push_back({name, fence, process, span.begin, last});
}

void Judge::finish() {
  for (auto const& [belief, span] : beliefs_)
    keep(belief, span, never);
  auto const now = records_.empty() ? 0 : records_.back().at;
  for (auto const& [call, span] : calls_) {
    auto const& [process, thread, name] = call;
    auto const late = now - end_of(span.until) - paused(process, span.begin, now);
    if (span.until != 0 && late > rules_.call_slack.count())
      report("deadline: a call of process " + std::to_string(process) + " for " + named(name) + ", begun " +
             time(span.begin) + ", never ended, " + milliseconds(late) + " after its deadline");
  }
}

void Judge::check_exclusion() {
  std::ranges::sort(stretches_, {}, &Stretch::begin);
  std::map<std::uint64_t, std::vector<Stretch>> holding;
  for (auto const& next : stretches_) {
    auto& others = holding[next.name];
    std::erase_if(others, [&](auto const& other) { return other.end - rules_.overlap.count() <= next.begin; });
    if (others.size() >= static_cast<std::size_t>(rules_.holders)) {
      auto const& other = *std::ranges::max_element(others, {}, &Stretch::end);
      auto const both = std::min(other.end, next.end) - next.begin;
      report("exclusion: " + named(next.name) + " was held by " + holder(other.process, other.fence) + " and by " +
             holder(next.process, next.fence) + " " + time(next.begin) + ", together for " +
             (both > never / 2 ? "ever" : milliseconds(both)));
    }
    others.push_back(next);
  }
}

void Judge::check_fences() {
  std::erase_if(grants_, [](auto const& grant) { return grant.fence == 0; });
  std::map<std::uint64_t, std::vector<Grant>> by_name;
  for (auto const& grant : grants_)
    by_name[grant.name].push_back(grant);
  for (auto& [name, by_asked] : by_name) {
    std::set<std::uint64_t> seen;
    for (auto const& grant : by_asked)
      if (!seen.insert(grant.fence).second)
        report("fence: " + named(name) + " was granted twice with fence " + std::to_string(grant.fence) +
               ", the second time to process " + std::to_string(grant.process) + " " + time(grant.granted));
    auto by_granted = by_asked;
    std::ranges::stable_sort(by_asked, {}, &Grant::asked);
    std::ranges::stable_sort(by_granted, {}, &Grant::granted);
    std::optional<Grant> largest;
    auto done = by_granted.begin();
    for (auto const& grant : by_asked) {
      for (; done != by_granted.end() && done->granted < grant.asked; ++done)
        if (!largest || done->fence > largest->fence)
          largest = *done;
      if (largest && largest->fence > grant.fence)
        report("fence: " + named(name) + " was granted to " + holder(grant.process, grant.fence) + " " +
               time(grant.granted) + ", after " + holder(largest->process, largest->fence) + " " +
               time(largest->granted));
    }
  }
}

}  // namespace

std::vector<std::string> check_history(std::vector<HistoryRecord> const& records, HistoryRules const& rules) {
  return Judge{records, rules}.verdict();
}

std::chrono::nanoseconds longest_without_grant(std::vector<HistoryRecord> const& records, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> moments{begin, end};
  for (auto const& record : records)
    if (record.what == Happening::belief_begin && record.at > begin && record.at < end)
      moments.push_back(record.at);
  std::ranges::sort(moments);
  std::int64_t longest = 0;
  for (std::size_t i = 1; i < moments.size(); ++i)
    longest = std::max(longest, moments[i] - moments[i - 1]);
  return std::chrono::nanoseconds{longest};
}

}  // namespace support
