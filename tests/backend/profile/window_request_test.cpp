#include "backend/profile/window_request.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "backend/base/process_identity.h"
#include "core/base/error.h"
#include "tests/backend/train/temporary_folder.h"

namespace shardscope {
namespace {

/// A process that lives until this goes.
class Asker {
 public:
  Asker() {
    int ends[2];
    if (::pipe(ends) != 0) ::abort();
    process_ = ::fork();
    if (process_ == 0) {
      const std::string identity = own_identity();
      if (::write(ends[1], identity.data(), identity.size()) < 0) ::_exit(1);
      ::close(ends[1]);
      while (true) ::pause();
    }
    ::close(ends[1]);
    char text[256];
    const ssize_t got = ::read(ends[0], text, sizeof text);
    identity_.assign(text, static_cast<std::size_t>(got));
    ::close(ends[0]);
  }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;
  ~Asker() { end(); }

  const std::string& identity() const { return identity_; }
  void end() {
    if (process_ < 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  pid_t process_ = -1;
  std::string identity_;
};

TEST(WindowRequest, OfALivingProcessIsKept) {
  const TemporaryFolder folder;
  const Asker first, second;
  EXPECT_TRUE(leave_request(folder.path(), {.id = first.identity(), .steps = 3}));
  EXPECT_FALSE(leave_request(folder.path(), {.id = second.identity(), .steps = 4}));
  const auto taken = take_request(folder.path());
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->id, first.identity());
  EXPECT_EQ(taken->steps, 3);
  EXPECT_FALSE(take_request(folder.path()));
  EXPECT_TRUE(leave_request(folder.path(), {.id = second.identity(), .steps = 4}));
}

TEST(WindowRequest, OfAProcessThatIsGoneGivesItsPlace) {
  const TemporaryFolder folder;
  Asker first;
  const Asker second;
  EXPECT_TRUE(leave_request(folder.path(), {.id = first.identity(), .steps = 3}));
  first.end();
  EXPECT_TRUE(leave_request(folder.path(), {.id = second.identity(), .steps = 4}));
  EXPECT_EQ(take_request(folder.path()).value_or(WindowRequest{}).id, second.identity());
}

TEST(WindowRequest, IsWithdrawnByNobodyElse) {
  const TemporaryFolder folder;
  const Asker first, second;
  EXPECT_TRUE(leave_request(folder.path(), {.id = first.identity(), .steps = 3}));
  withdraw_request(folder.path(), second.identity());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "profile.request"));
  withdraw_request(folder.path(), first.identity());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "profile.request"));
}

TEST(WindowRequest, ThatIsNoneGivesItsPlace) {
  const TemporaryFolder folder;
  const Asker asker;
  std::ofstream(folder.path() / "profile.request") << "{\"id\": \"torn";
  EXPECT_TRUE(leave_request(folder.path(), {.id = asker.identity(), .steps = 3}));
  EXPECT_EQ(take_request(folder.path()).value_or(WindowRequest{}).id, asker.identity());
}

TEST(WindowRequest, ThatCannotBeWrittenIsAnError) {
  const TemporaryFolder folder;
  const Asker asker;
  std::filesystem::create_directories(folder.path() / "profile.request" / "in_the_way");
  EXPECT_THROW(leave_request(folder.path(), {.id = asker.identity(), .steps = 3}), Error);
  EXPECT_THROW(leave_request(folder.path() / "absent", {.id = asker.identity(), .steps = 3}),
               Error);
}

TEST(WindowRequest, LeavesNothingElseInTheFolder) {
  const TemporaryFolder folder;
  const Asker asker;
  EXPECT_TRUE(leave_request(folder.path(), {.id = asker.identity(), .steps = 3}));
  EXPECT_TRUE(take_request(folder.path()));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace shardscope
