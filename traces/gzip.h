// gzip in memory, both ways, with a bound on what comes out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace shardscope {

/// Compresses text piece by piece. The same text gives the same bytes: no time, no name in the
/// header.
class GzipWriter {
 public:
  GzipWriter();
  ~GzipWriter();
  GzipWriter(const GzipWriter&) = delete;
  GzipWriter& operator=(const GzipWriter&) = delete;

  void append(std::string_view text);
  /// The whole gzip stream; the writer is spent.
  std::string finish();

 private:
  void deflate_pending(int flush);

  struct State;
  std::unique_ptr<State> state_;
};

/// Does `content` begin like a gzip stream.
bool is_gzip(std::string_view content);

/// Text of a gzip stream of one or more members. Damaged or more than `max_bytes` of text: Error
/// naming `where`.
std::string gunzip(std::string_view compressed, std::int64_t max_bytes, std::string_view where);

}  // namespace shardscope
