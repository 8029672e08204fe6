#include "backend/rendezvous/tcp_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/rendezvous/tcp_store_server.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class Store : public ::testing::Test {
 protected:
  TcpStore client(milliseconds deadline = std::chrono::minutes(1)) const {
    return TcpStore("127.0.0.1", server_.port(), deadline);
  }

  /// Sends raw bytes, and reads until the server closes the connection or answers.
  std::string answer_to(const std::string& bytes) const {
    const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(server_.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(socket.get(), SHUT_WR);
    char answer[256];
    const ssize_t got = ::recv(socket.get(), answer, sizeof answer, 0);
    return got > 0 ? std::string(answer, static_cast<std::size_t>(got)) : "";
  }

  TcpStoreServer server_{ListeningSocket(ListeningSocket::Reach::loopback, 0)};
};

TEST_F(Store, GivesWhatWasSet) {
  client().set("name", std::string("a\0b", 3));
  EXPECT_EQ(client().get("name"), std::string("a\0b", 3));
}

TEST_F(Store, GetWaitsForTheValue) {
  std::thread setter([this] {
    std::this_thread::sleep_for(milliseconds(100));
    client().set("late", "here");
  });
  EXPECT_EQ(client().get("late"), "here");
  setter.join();
}

TEST_F(Store, CountersAddUp) {
  TcpStore one = client();
  TcpStore other = client();
  EXPECT_EQ(one.add("counter", 5), 5);
  EXPECT_EQ(other.add("counter", -2), 3);
}

TEST_F(Store, PeekDoesNotWait) {
  EXPECT_EQ(client().peek("name"), std::nullopt);
  client().set("name", "value");
  EXPECT_EQ(client().peek("name"), "value");
}

TEST_F(Store, TheFirstOfferStands) {
  EXPECT_EQ(client().offer("cause", "rank 1"), "rank 1");
  EXPECT_EQ(client().offer("cause", "rank 2"), "rank 1");
  EXPECT_EQ(client().get("cause"), "rank 1");
}

TEST_F(Store, AWillIsOfferedWhenTheConnectionEnds) {
  TcpStore other = client();
  {
    TcpStore mortal = client();
    mortal.leave_will("lost", "rank 1");
    EXPECT_EQ(other.peek("lost"), std::nullopt);
  }
  EXPECT_EQ(other.get("lost"), "rank 1");
}

TEST_F(Store, AWithdrawnWillIsNot) {
  TcpStore other = client();
  {
    TcpStore one = client();
    one.leave_will("lost", "rank 1");
    one.withdraw_will();
  }
  // Served in order of arrival: the end of the first connection comes before this one's request.
  client().set("after", "");
  EXPECT_EQ(other.peek("lost"), std::nullopt);
}

TEST_F(Store, ANameThatNobodyHasIsNamedAtTheDeadline) {
  const auto start = std::chrono::steady_clock::now();
  try {
    const TcpStore store("no-such-host.invalid", 29500, milliseconds(300));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::rank_lost);
    EXPECT_THAT(error.what(), HasSubstr("no-such-host.invalid:29500"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

TEST_F(Store, BarrierLetsAllThroughAtOnce) {
  std::vector<std::thread> ranks;
  std::atomic<int> arrived = 0;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&] {
      TcpStore store = client();
      ++arrived;
      store.barrier("start", 4);
      EXPECT_EQ(arrived, 4);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_F(Store, DeadlineSaysWhoIsMissing) {
  try {
    client(milliseconds(200)).barrier("start", 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::rank_lost);
    EXPECT_THAT(error.what(), HasSubstr("1 of 3 ranks came"));
  }
}

TEST_F(Store, DeadlineSaysWhichValueIsMissing) {
  try {
    client(milliseconds(100)).get("socket");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("nobody set \"socket\" within 0.1 s"));
  }
}

TEST_F(Store, NobodyThereEndsAtTheDeadline) {
  // Taken, so that nobody else gets it, and not listened at.
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int port = ntohs(address.sin_port);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(TcpStore("127.0.0.1", port, milliseconds(300)), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

TEST_F(Store, OnAllInterfacesBothKindsOfAddressReachIt) {
  const TcpStoreServer open(ListeningSocket(ListeningSocket::Reach::all_interfaces, 0));
  TcpStore("127.0.0.1", open.port(), std::chrono::minutes(1)).set("name", "value");
  const FileDescriptor ipv6(::socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_in6 any{.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
  if (!ipv6.valid() || ::bind(ipv6.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0)
    GTEST_SKIP() << "no IPv6 here";
  EXPECT_EQ(TcpStore("::1", open.port(), std::chrono::minutes(1)).get("name"), "value");
}

TEST_F(Store, ATakenPortIsNamed) {
  try {
    const ListeningSocket socket(ListeningSocket::Reach::loopback, server_.port());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::outside);
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(server_.port())));
  }
}

TEST_F(Store, TooLargeKeysAndValuesAreRefusedHere) {
  EXPECT_THROW(client().set(std::string(257, 'k'), ""), Error);
  EXPECT_THROW(client().set("k", std::string(65537, 'v')), Error);
  const std::string largest(65536, 'v');
  client().set("k", largest);
  EXPECT_EQ(client().get("k"), largest);
}

TEST_F(Store, AddToWhatIsNoCounterIsRefused) {
  client().set("text", "abc");
  EXPECT_THROW(client().add("text", 1), Error);
}

TEST_F(Store, OtherPeoplesBytesCloseTheirConnectionOnly) {
  const std::string greeting(store_greeting);
  EXPECT_EQ(answer_to("GET / HTTP/1.1\r\n\r\n"), "");
  EXPECT_EQ(answer_to(std::string(100000, '\0')), "");
  EXPECT_EQ(answer_to(std::string(100000, '\xff')), "");
  EXPECT_EQ(answer_to(""), "");
  EXPECT_EQ(answer_to(greeting.substr(0, 5)), "");
  // A request that claims 4 GiB of value, and one that ends in the middle.
  EXPECT_EQ(answer_to(greeting + std::string("\1\0\1\0\xff\xff\xff\xff", 8)), "");
  EXPECT_EQ(answer_to(greeting + std::string("\1\0\1\0\5\0\0\0ab", 10)), "");
  // An unknown request is answered "refused" (2).
  EXPECT_EQ(answer_to(greeting + std::string("\x63\0\1\0\0\0\0\0k", 9)).substr(0, 1), "\2");

  client().set("still", "alive");
  EXPECT_EQ(client().get("still"), "alive");
}

TEST_F(Store, RandomBytesDoNotStopIt) {
  std::uint64_t state = 1;
  for (int turn = 0; turn < 200; ++turn) {
    std::string bytes = turn % 2 == 0 ? std::string(store_greeting) : "";
    for (int i = 0; i < turn * 3; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bytes += static_cast<char>(state >> 56);
    }
    answer_to(bytes);
  }
  client().set("still", "alive");
  EXPECT_EQ(client().get("still"), "alive");
}

}  // namespace
}  // namespace shardscope
