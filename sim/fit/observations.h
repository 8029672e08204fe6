// What a profile of a real run says of the constants of a hardware profile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/quantities.h"
#include "core/schedule/device_work.h"
#include "core/schedule/kernel.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// One call of the `subject`-th kernel, collective, product or copy of its table.
struct Timing {
  std::uint32_t subject = 0;
  int step = 0;  ///< of training, or the how-manieth call of its subject: what is held out by turns
  Duration time;
};

struct ObservedCollective {
  OperationKind kind = OperationKind::all_gather;
  int ranks = 2;
  Bytes bytes;  ///< payload: out of the gather, into the reduction
  bool operator==(const ObservedCollective&) const = default;
};

/// A matrix product by shapes alone.
struct ObservedProduct {
  MatmulShape shape;
  Dtype dtype = Dtype::float32;
  bool operator==(const ObservedProduct&) const = default;
};

inline Flops flops_of(const ObservedProduct& p) {
  return {2 * p.shape.batch * p.shape.m * p.shape.n * p.shape.k};
}
/// Both factors and the result, once.
inline Bytes bytes_of(const ObservedProduct& p) {
  const MatmulShape& s = p.shape;
  return bytes_of(s.batch * (s.m * s.k + s.k * s.n + s.m * s.n), p.dtype);
}

enum class CopyDirection : std::uint8_t { host_to_device, device_to_host, within_device };

struct ObservedCopy {
  CopyDirection direction = CopyDirection::within_device;
  Bytes bytes;
  bool operator==(const ObservedCopy&) const = default;
};

/// Calls of one sort and what they are calls of.
template <class Subject>
struct Observed {
  std::vector<Subject> subjects;  ///< each once
  std::vector<Timing> timings;
};

/// Of one run. Kernels of ours are known exactly; of another program products are known by their
/// shapes, and collectives say what its links are.
struct RunObservations {
  Observed<Kernel> kernels;
  Observed<ObservedCollective> collectives;
  bool collectives_are_samples =
      false;  ///< sizes that will be asked for again, else links' figures
  Observed<ObservedProduct> products;
  Observed<ObservedCopy> copies;
  std::vector<Duration> launches;  ///< of the host, one each
};

/// The timing's subject, added where it is new.
template <class Subject>
std::uint32_t subject_of(Observed<Subject>& observed, const Subject& subject) {
  for (std::uint32_t i = 0; i < observed.subjects.size(); ++i)
    if (observed.subjects[i] == subject) return i;
  observed.subjects.push_back(subject);
  return static_cast<std::uint32_t>(observed.subjects.size() - 1);
}

}  // namespace shardscope
