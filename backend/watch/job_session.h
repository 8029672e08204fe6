// A rank's part in a job of several: where they meet, and the watchdog.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "backend/watch/meeting.h"
#include "backend/watch/watchdog.h"

namespace shardscope {

struct JobSession {
  /// Collective; see Meeting and Watchdog.
  JobSession(const Environment& environment, std::chrono::milliseconds deadline,
             std::filesystem::path flight_folder, std::optional<ListeningSocket> socket)
      : meeting(environment, deadline, std::move(socket)),
        watchdog(meeting, std::move(flight_folder)) {}

  Meeting meeting;
  Watchdog watchdog;
};

/// Runs a rank's work and returns its code. What it throws is told to the other ranks, and thrown
/// on where it falls to this process to print it; otherwise its code is returned. `session`: null
/// where there is one rank.
ExitCode run_as_rank(JobSession* session, const std::function<ExitCode()>& work);

}  // namespace shardscope
