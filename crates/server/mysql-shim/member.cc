/* The member in the life of its server: what it is started with, and when it starts and ends.

   SPDX-License-Identifier: GPL-2.0-only */
#define MYSQL_SERVER 1
#include <mysql_version.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "mysql/gtid/tsid.h"
#include "sql/replication.h"
#include "synod_mysql.h"

/* Exported by mysqld, without a header that plugins may include. */
extern char server_uuid[37];
int get_sidno_from_global_tsid_map(const mysql::gtid::Tsid &tsid);

int group_sidno;
std::atomic<bool> runs{false};
std::atomic<bool> is_outside{false};
char start_problem[sizeof(synod_status::problem)];

namespace {

/* Held while the member starts or stops. */
std::timed_mutex changing;
/* Of the server's shutdown: a statement may hold that lock while it waits for commits. */
constexpr std::chrono::seconds SHUTDOWN_WAITS(10);

/* The UUID of the group that the member was started for. */
std::string group_text;

/* Values that do not change while the server runs. They are texts, which the server gives to a
   thread with a session only (9.7.4 crashes in the thread that is about to let clients in): they
   are read when the plugin is loaded. */
struct Fixed {
  std::string data_dir, version;
  OwnAddress address;
} fixed;

/* Settings without which the position after a crash is not exact, or members would differ. */
std::string wrong_setting() {
  const struct {
    const char *name, *value, *why;
  } wanted[] = {
      {"log_bin", "ON", "the group's transactions are those of the binlog"},
      {"gtid_mode", "ON", "GTIDs are the numbers of the group's order"},
      {"enforce_gtid_consistency", "ON", "GTIDs need it"},
      {"binlog_format", "ROW", "statements may end otherwise on other servers"},
      {"binlog_row_image", "FULL", "other servers find rows by all their values"},
      {"innodb_flush_log_at_trx_commit", "1",
       "after a crash the binlog would claim transactions that InnoDB has lost"},
      {"innodb_flush_log_at_timeout", "1",
       "the group's log is kept for what a replica has not flushed"},
      {"log_replica_updates", "OFF", "the position of the applier would be the binlog's, too"},
      {"binlog_order_commits", "ON", "a crash would lose earlier commits, and keep later ones"},
      {"replica_preserve_commit_order", "ON", "commits would be seen in another order"},
      {"binlog_error_action", "ABORT_SERVER",
       "a transaction that the group has would be missing here only"},
  };
  for (const auto &setting : wanted) {
    const std::string value = variable(setting.name);
    const bool is_right = value == setting.value ||
                          (!strcmp(setting.value, "ON") && (value == "1" || value == "YES")) ||
                          (!strcmp(setting.value, "OFF") && value == "0");
    if (!is_right)
      return std::string(setting.name) + " is " + value + ", and must be " + setting.value + ": " +
             setting.why;
  }
  return "";
}

/* May change while the server runs. */
uint32_t server_id() {
  return static_cast<uint32_t>(strtoul(variable("server_id").c_str(), nullptr, 10));
}

/* What the member is started with: of the plugin's own variables, and where they are empty, of
   those of Group Replication. */
struct Chosen {
  std::string group, name, address, members, options, incoming;
  bool bootstrap;
};

Chosen choose(const GroupReplicationSettings &other) {
  const auto first = [](const char *own, const std::string &second) {
    return own == nullptr || *own == '\0' ? second : std::string(own);
  };
  Chosen chosen;
  chosen.group = first(var_group, other.group);
  chosen.name = first(var_name, other.group.empty() ? "" : "server" + variable("server_id"));
  chosen.address = first(var_address, other.address);
  chosen.members = first(var_members, other.members);
  /* What the plugin's own options say comes later, and counts. */
  chosen.options = "synod.leader_weight=" + other.weight + ";" + first(var_options, "");
  chosen.bootstrap = var_bootstrap || other.bootstrap;
  chosen.incoming = fixed.address.host + ":" + std::to_string(fixed.address.port) + " (" +
                    server_uuid + ")";
  return chosen;
}

/* Chosen values as the host takes them. */
synod_settings as_settings(const Chosen &chosen) {
  synod_settings settings{};
  settings.group = chosen.group.c_str();
  settings.name = chosen.name.c_str();
  settings.address = chosen.address.c_str();
  settings.members = chosen.members.c_str();
  settings.options = chosen.options.c_str();
  settings.incoming = chosen.incoming.c_str();
  settings.data_dir = fixed.data_dir.c_str();
  settings.bootstrap = chosen.bootstrap;
  settings.server_version = MYSQL_VERSION_ID;
  settings.server_version_text = fixed.version.c_str();
  settings.server_id = server_id();
  return settings;
}

/* Closed while a member starts, after the commits under way, which its position counts; opened
   again if it does not. */
class Closed {
 public:
  Closed() : was_outside_(is_outside.exchange(false)) {
    if (!was_outside_) return;
    was_read_only_ = is_on("read_only");
    was_super_read_only_ = is_on("super_read_only");
    set_read_only(1);
  }
  ~Closed() {
    if (runs || !was_outside_) return;
    is_outside = true;
    if (!was_super_read_only_) set_variable("super_read_only", "OFF");
    if (!was_read_only_) set_variable("read_only", "OFF");
  }
  Closed(const Closed &) = delete;
  Closed &operator=(const Closed &) = delete;

 private:
  static bool is_on(const char *name) {
    const std::string value = variable(name);
    return value == "ON" || value == "1";
  }
  const bool was_outside_;
  bool was_read_only_ = false, was_super_read_only_ = false;
};

std::string try_to_start() {
  const GroupReplicationSettings other = group_replication_settings();
  std::string why = other.problem.empty() ? wrong_setting() : other.problem;
  if (!why.empty()) return why;
  if (server_id() == 0) return "server_id is 0: give each server of the group another one";
  const std::string ignored = ignored_variables();
  if (!ignored.empty())
    say(MY_WARNING_LEVEL, "these variables have no meaning for Synod, and are ignored: " + ignored);
  const Chosen chosen = choose(other);
  mysql::gtid::Tsid group;
  if (group.from_cstring(chosen.group.c_str()) == 0)
    return "synod_group (or group_replication_group_name) is not a valid UUID: give all servers of "
           "the group the same one";
  if (strcasecmp(chosen.group.c_str(), server_uuid) == 0)
    return "Member server_uuid is incompatible with the group: synod_group (or "
           "group_replication_group_name) is this server's own server_uuid, so what it writes "
           "outside would look like the group's. Give the group another UUID";
  const Closed closed;
  if (other_channel_runs())
    return "a channel from another source runs, and the group would not hear of what it applies: "
           "STOP REPLICA first";
  group_sidno = get_sidno_from_global_tsid_map(group);
  group_text = chosen.group;
  const synod_settings settings = as_settings(chosen);
  char text[sizeof start_problem];
  if (synod_host_start(&server_calls, &settings, text, sizeof text) != 0) return text;
  start_problem[0] = '\0';
  runs = true;
  return "";
}

int state_nothing(Server_state_param *) { return 0; }
int before_clients(Server_state_param *) {
  start_with_server();
  return 0;
}
int before_shutdown(Server_state_param *) {
  stop_host();
  return 0;
}

void end_host() {
  if (runs) synod_host_leave();
  runs = false;
  synod_host_stop();
}

}  // namespace

Server_state_observer server_state_hooks = {sizeof(Server_state_observer),
                                       before_clients,
                                       state_nothing,
                                       state_nothing,
                                       state_nothing,
                                       before_shutdown,
                                       state_nothing,
                                       state_nothing};

void read_fixed() {
  const auto either = [](const char *name, const char *other) {
    const std::string value = variable(name);
    return value.empty() || value == "?" || value == "0" ? variable(other) : value;
  };
  fixed.data_dir = variable("datadir");
  fixed.version = variable("version");
  fixed.address.host = either("report_host", "hostname");
  fixed.address.port =
      static_cast<unsigned int>(strtoul(either("report_port", "port").c_str(), nullptr, 10));
}

void start_with_server() {
  const GroupReplicationSettings other = group_replication_settings();
  if (other.starts_with_server) {
    start_member();
    return;
  }
  is_outside = true;
  const Chosen chosen = choose(other);
  const synod_settings settings = as_settings(chosen);
  if (synod_host_was_member(&settings) == 0) return;
  say(MY_WARNING_LEVEL,
      "this server is a member of a group, and group_replication_start_on_boot is OFF: it takes no "
      "writes (super_read_only) before START GROUP_REPLICATION");
  set_read_only(1);
}

void stop_host() {
  const std::unique_lock<std::timed_mutex> lock(changing, SHUTDOWN_WAITS);
  end_host();
}

bool member_runs() { return runs; }

std::string start_member() {
  const std::lock_guard<std::timed_mutex> lock(changing);
  if (runs) return "it runs already";
  const std::string why = self == nullptr ? "the plugin synod of the same file is not loaded: "
                                            "INSTALL PLUGIN synod SONAME 'synod_mysql.so'"
                                          : try_to_start();
  if (why.empty()) return why;
  snprintf(start_problem, sizeof start_problem, "%s", why.c_str());
  say(MY_ERROR_LEVEL, "this server takes no part in its group, and no writes: " + why);
  return why;
}

/* Nothing that is not the group's is written afterwards. The server is closed after the member has
   ended the waits of commits, for which closing would wait. One that cannot be closed refuses
   commits instead. */
void stop_member() {
  const std::lock_guard<std::timed_mutex> lock(changing);
  if (is_outside) return;
  end_host();
  const bool is_closed = set_read_only(1) == 0;
  /* As the member found it. */
  set_flush(1);
  is_outside = is_closed;
  if (!is_closed)
    say(MY_ERROR_LEVEL, "super_read_only cannot be set; until START GROUP_REPLICATION or STOP "
                        "GROUP_REPLICATION succeeds, this server refuses all that is written");
}

std::string group_uuid() { return group_text; }

std::string own_uuid() { return server_uuid; }

OwnAddress own_address() { return fixed.address; }
