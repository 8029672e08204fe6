// How others ask a running job for a window.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace shardscope {

/// Somebody's request for a window, left in the run folder as profile.request before the job is
/// woken by SIGUSR1.
struct WindowRequest {
  std::string id;  ///< of who asks, own_identity()
  int steps = 0;
};

/// On the host of rank 0. False where the request of a process that lives lies there; one that
/// nobody waits for any more is replaced. The file is there whole or not at all. Throws Error where
/// it cannot be written.
bool leave_request(const std::filesystem::path& run_folder, const WindowRequest& request);
/// Removes the request of `id`, and nobody else's.
void withdraw_request(const std::filesystem::path& run_folder, const std::string& id);

/// Of rank 0, which waits for nobody: takes the request away; none where nobody asks.
std::optional<WindowRequest> take_request(const std::filesystem::path& run_folder);
/// What lies there is of nobody who still asks.
void drop_requests(const std::filesystem::path& run_folder);

}  // namespace shardscope
