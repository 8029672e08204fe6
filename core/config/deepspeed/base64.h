// Base64 as Python decodes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shardscope {

/// base64.urlsafe_b64decode(text) of Python 3.11: characters outside the alphabet are skipped;
/// nothing where the padding is wrong (binascii.Error there).
std::optional<std::string> decode_base64_url(std::string_view text);

}  // namespace shardscope
