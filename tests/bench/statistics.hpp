// SPDX-License-Identifier: MIT
// Percentiles, and runs that are compared only with what ran at their side.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace bench {

/// The value below which that part of the samples lies; not a number where there is none. Changes their order.
inline double percentile(std::vector<double>& samples, double part) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  auto const last = samples.size() - 1;
  auto const index = std::min(last, static_cast<std::size_t>(part * static_cast<double>(samples.size())));
  auto const place = samples.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(samples.begin(), place, samples.end());
  return *place;
}

inline double median(std::vector<double>& samples) { return percentile(samples, 0.5); }

/// What `run(variant)` gave, by variant and repetition.
template <class Result>
class Runs {
 public:
  /// Every variant once per repetition, each time beginning with another: what disturbs the machine meets all alike.
  template <class Run>
  Runs(std::size_t variants, std::size_t repetitions, Run&& run) : results_(variants, std::vector<Result>(repetitions)) {
    for (std::size_t repetition = 0; repetition < repetitions; ++repetition)
      for (std::size_t i = 0; i < variants; ++i) {
        auto const variant = (repetition + i) % variants;
        results_[variant][repetition] = run(variant);
      }
  }

  double median_of(std::size_t variant, double Result::*figure) const {
    std::vector<double> values;
    for (auto const& result : results_[variant]) values.push_back(result.*figure);
    return median(values);
  }

  /// The median of what each repetition gave in proportion to the floor, which is variant 0, in the same repetition.
  double ratio_of(std::size_t variant, double Result::*figure) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < results_[variant].size(); ++i)
      values.push_back(results_[variant][i].*figure / (results_[0][i].*figure));
    return median(values);
  }

 private:
  std::vector<std::vector<Result>> results_;
};

}  // namespace bench
