/* The plugin "group_replication" of synod_mysql.so: the statements and tables that MySQL's own
   Group Replication has, for the member that the plugin "synod" runs. The server finds it by this
   name. Its variables and functions are in files of their own.

   SPDX-License-Identifier: GPL-2.0-only */
#include <mysql_version.h>
#include <unistd.h>

#include <chrono>

#include "synod_host.h"
#include "synod_mysql.h"

namespace {

/* Numbers that START and STOP GROUP_REPLICATION turn into errors: 1 is 3092, 2 is 3093. */
constexpr int WRONG_SETTING = 1;
constexpr int RUNS_ALREADY = 2;
constexpr int JOIN_SECONDS = 10;
constexpr size_t UUID_BYTES = 36;

/* Waits until the server is in its group, as clients expect it after the statement. Without a
   majority it continues to look for it. */
void await_group() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(JOIN_SECONDS);
  while (Members().size() == 0) {
    if (std::chrono::steady_clock::now() > end) {
      say(MY_WARNING_LEVEL, "START GROUP_REPLICATION: this server has not found its group yet, and "
                            "continues to look for it. Do other members run? For a new group, "
                            "group_replication_bootstrap_group=ON is set on its first server");
      return;
    }
    usleep(10000);
  }
}

int start(char **) {
  if (member_runs()) return RUNS_ALREADY;
  if (!start_member().empty()) return WRONG_SETTING;
  await_group();
  return 0;
}

int stop(char **) {
  stop_member();
  return 0;
}

bool is_running() { return member_runs(); }
bool is_cloning() { return false; }
int take_certification_info(void *) { return 0; }

/* Hands a text to a function of the server's. */
template <typename Set>
void put(Set set, void *context, const std::string &text) {
  set(context, *text.c_str(), text.size());
}

bool connection_status(const GROUP_REPLICATION_CONNECTION_STATUS_CALLBACKS &to) {
  put(to.set_channel_name, to.context, CHANNEL);
  /* The server shows as many bytes as a UUID has, also those that are not set: what was in its
     memory. It cuts blanks. */
  std::string group = group_uuid();
  group.resize(UUID_BYTES, ' ');
  put(to.set_group_name, to.context, group);
  put(to.set_source_uuid, to.context, group);
  to.set_service_state(to.context, member_runs());
  return false;
}

/* A server without its group is a row of its own, and OFFLINE. */
unsigned int count_of_rows() {
  const Members members;
  return members.size() == 0 ? 1 : static_cast<unsigned int>(members.size());
}

bool member_row(unsigned int row, const GROUP_REPLICATION_GROUP_MEMBERS_CALLBACKS &to) {
  const Members members;
  put(to.set_channel_name, to.context, CHANNEL);
  /* All of a group run the version that the plugin was built for, or its neighbours. */
  put(to.set_member_version, to.context, MYSQL_SERVER_VERSION);
  put(to.set_member_incoming_communication_protocol, to.context, "Synod");
  if (members.size() == 0 && row == 0) {
    const OwnAddress own = own_address();
    put(to.set_member_id, to.context, own_uuid());
    put(to.set_member_host, to.context, own.host);
    to.set_member_port(to.context, own.port);
    put(to.set_member_state, to.context, "OFFLINE");
    return false;
  }
  if (row >= members.size()) return true;
  const synod_member &member = members[row];
  put(to.set_member_id, to.context, member.server);
  put(to.set_member_host, to.context, member.host);
  to.set_member_port(to.context, member.port);
  put(to.set_member_state, to.context, member.state);
  put(to.set_member_role, to.context, member.is_writer ? "PRIMARY" : "SECONDARY");
  return false;
}

/* Numbers are known of this server only. */
bool statistics_row(unsigned int row, const GROUP_REPLICATION_GROUP_MEMBER_STATS_CALLBACKS &to) {
  const Members members;
  put(to.set_channel_name, to.context, CHANNEL);
  if (row >= members.size()) return row != 0;
  const synod_member &member = members[row];
  put(to.set_member_id, to.context, member.server);
  if (!member.is_self) return false;
  synod_status status;
  synod_host_status(&status);
  put(to.set_transactions_committed, to.context,
      group_uuid() + ":1-" + std::to_string(status.applied));
  if (status.committed > 0)
    put(to.set_last_conflict_free_transaction, to.context,
        group_uuid() + ":" + std::to_string(status.committed));
  to.set_transactions_in_queue(to.context, 0);
  to.set_transactions_certified(to.context, status.checked);
  to.set_transactions_conflicts_detected(to.context, status.refused);
  to.set_transactions_remote_applier_queue(to.context, status.waiting);
  to.set_transactions_local_proposed(to.context,
                                     status.ordered + status.refused + status.unknown);
  to.set_transactions_local_rollback(to.context, status.refused);
  return false;
}

/* As the server reads a number. */
char *number(std::atomic<unsigned long long> &value) {
  static_assert(sizeof value == sizeof(unsigned long long));
  return reinterpret_cast<char *>(&value);
}

}  // namespace

SHOW_VAR group_replication_status[] = {
    {"Gr_data_messages_sent_count", number(commit_waits.count), SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"Gr_data_messages_sent_bytes_sum", number(sent_bytes), SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"Gr_data_messages_sent_roundtrip_time_sum", number(commit_waits.sum_us), SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"Gr_transactions_consistency_before_begin_count", number(before_waits.count), SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"Gr_transactions_consistency_before_begin_time_sum", number(before_waits.sum_us),
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"Gr_transactions_consistency_after_termination_count", number(after_waits.count),
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"Gr_transactions_consistency_after_termination_time_sum", number(after_waits.sum_us),
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {nullptr, nullptr, SHOW_LONG, SHOW_SCOPE_GLOBAL}};

st_mysql_group_replication group_replication_calls = {
    MYSQL_GROUP_REPLICATION_INTERFACE_VERSION,
    start,
    stop,
    is_running,
    is_cloning,
    take_certification_info,
    connection_status,
    member_row,
    statistics_row,
    count_of_rows};

int group_replication_init(MYSQL_PLUGIN) {
  register_functions();
  register_tables();
  return 0;
}

int group_replication_deinit(MYSQL_PLUGIN) {
  unregister_tables();
  unregister_functions();
  return 0;
}
