/* The plugin "group_replication" of synod_mysql.so: the statements, tables, functions and variables
   that MySQL's own Group Replication has, for the member that the plugin "synod" runs. The server
   finds it by this name.

   SPDX-License-Identifier: GPL-2.0-only */
#include "synod_mysql.h"

#include <mysql/components/services/udf_registration.h>
#include <mysql_version.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "synod_host.h"

namespace {

/* Numbers that START and STOP GROUP_REPLICATION turn into errors: 1 is 3092, 2 is 3093. */
constexpr int WRONG_SETTING = 1;
constexpr int RUNS_ALREADY = 2;
constexpr size_t MEMBERS_MAX = 64;

char *var_group_name, *var_local_address, *var_group_seeds;
bool var_bootstrap_group, var_start_on_boot, var_single_primary_mode;
unsigned int var_member_weight;

constexpr int TEXT = PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC;
MYSQL_SYSVAR_STR(group_name, var_group_name, TEXT, "UUID of the group: as synod_group", nullptr,
                 nullptr, "");
MYSQL_SYSVAR_STR(local_address, var_local_address, TEXT,
                 "host:port for the other members: as synod_address", nullptr, nullptr, "");
MYSQL_SYSVAR_STR(group_seeds, var_group_seeds, TEXT, "Addresses of members: as synod_members",
                 nullptr, nullptr, "");
MYSQL_SYSVAR_BOOL(bootstrap_group, var_bootstrap_group, PLUGIN_VAR_OPCMDARG,
                  "Begin the group at START GROUP_REPLICATION: as synod_bootstrap", nullptr,
                  nullptr, false);
MYSQL_SYSVAR_BOOL(start_on_boot, var_start_on_boot, PLUGIN_VAR_OPCMDARG,
                  "Start the member with the server", nullptr, nullptr, true);
MYSQL_SYSVAR_BOOL(single_primary_mode, var_single_primary_mode,
                  PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY, "One server takes writes: always ON",
                  nullptr, nullptr, true);
MYSQL_SYSVAR_UINT(member_weight, var_member_weight, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
                  "How much this server is preferred as the writer: as synod.leader_weight",
                  nullptr, nullptr, 50, 0, 100, 0);

/* Variables that have no meaning here. They are taken, so that a configuration can stay. */
#define IGNORED(all)                                                                              \
  all(advertise_recovery_endpoints) all(allow_local_lower_version_join)                           \
  all(auto_increment_increment) all(autorejoin_tries) all(clone_threshold)                        \
  all(communication_debug_options) all(communication_max_message_size) all(communication_stack)   \
  all(components_stop_timeout) all(compression_threshold) all(enforce_update_everywhere_checks)   \
  all(exit_state_action) all(flow_control_applier_threshold)                                      \
  all(flow_control_certifier_threshold) all(flow_control_hold_percent)                            \
  all(flow_control_max_quota) all(flow_control_member_quota_percent) all(flow_control_min_quota)  \
  all(flow_control_min_recovery_quota) all(flow_control_mode) all(flow_control_period)            \
  all(flow_control_release_percent) all(force_members) all(gtid_assignment_block_size)            \
  all(ip_allowlist) all(member_expel_timeout) all(message_cache_size) all(paxos_single_leader)    \
  all(poll_spin_loops) all(preemptive_garbage_collection)                                         \
  all(preemptive_garbage_collection_rows_threshold) all(recovery_compression_algorithms)          \
  all(recovery_get_public_key) all(recovery_public_key_path) all(recovery_reconnect_interval)     \
  all(recovery_retry_count) all(recovery_ssl_ca) all(recovery_ssl_capath) all(recovery_ssl_cert)  \
  all(recovery_ssl_cipher) all(recovery_ssl_crl) all(recovery_ssl_crlpath) all(recovery_ssl_key)  \
  all(recovery_ssl_verify_server_cert) all(recovery_tls_ciphersuites) all(recovery_tls_version)   \
  all(recovery_use_ssl) all(recovery_zstd_compression_level) all(ssl_mode) all(tls_source)        \
  all(transaction_size_limit) all(unreachable_majority_timeout) all(view_change_uuid)

#define DECLARE(name)                                                                   \
  char *var_##name;                                                                     \
  MYSQL_SYSVAR_STR(name, var_##name, TEXT | PLUGIN_VAR_READONLY, "Ignored by Synod",    \
                   nullptr, nullptr, nullptr);
IGNORED(DECLARE)

struct Ignored {
  const char *name;
  char **value;
};
#define ROW(name) {#name, &var_##name},
const Ignored ignored[] = {IGNORED(ROW)};

std::string names_of_ignored() {
  std::string names;
  for (const Ignored &variable : ignored) {
    if (*variable.value == nullptr) continue;
    names += (names.empty() ? "group_replication_" : ", group_replication_");
    names += variable.name;
  }
  return names;
}

int start(char **) {
  if (member_runs()) return RUNS_ALREADY;
  return start_member().empty() ? 0 : WRONG_SETTING;
}

int stop(char **) {
  stop_member();
  return 0;
}

bool is_running() { return member_runs(); }
bool is_cloning() { return false; }
int take_certification_info(void *) { return 0; }

struct Members {
  Members() : count(synod_host_members(rows, MEMBERS_MAX)) {}
  synod_member rows[MEMBERS_MAX];
  const size_t count;
};

/* Hands a text to a function of the server's. */
template <typename Set>
void put(Set set, void *context, const std::string &text) {
  set(context, *text.c_str(), text.size());
}

bool connection_status(const GROUP_REPLICATION_CONNECTION_STATUS_CALLBACKS &to) {
  put(to.set_channel_name, to.context, CHANNEL);
  put(to.set_group_name, to.context, group_uuid());
  put(to.set_source_uuid, to.context, group_uuid());
  to.set_service_state(to.context, member_runs());
  return false;
}

/* A server without its group is a row of its own, and OFFLINE. */
unsigned int count_of_rows() {
  const Members members;
  return members.count == 0 ? 1 : static_cast<unsigned int>(members.count);
}

bool member_row(unsigned int row, const GROUP_REPLICATION_GROUP_MEMBERS_CALLBACKS &to) {
  const Members members;
  put(to.set_channel_name, to.context, CHANNEL);
  if (members.count == 0 && row == 0) {
    put(to.set_member_id, to.context, own_uuid());
    put(to.set_member_state, to.context, "OFFLINE");
    return false;
  }
  if (row >= members.count) return true;
  const synod_member &member = members.rows[row];
  put(to.set_member_id, to.context, member.server);
  put(to.set_member_host, to.context, member.host);
  to.set_member_port(to.context, member.port);
  put(to.set_member_state, to.context, member.state);
  put(to.set_member_role, to.context, member.is_writer ? "PRIMARY" : "SECONDARY");
  /* All of a group run the version that the plugin was built for, or its neighbours. */
  put(to.set_member_version, to.context, MYSQL_SERVER_VERSION);
  put(to.set_member_incoming_communication_protocol, to.context, "Synod");
  return false;
}

/* Numbers are known of this server only. */
bool statistics_row(unsigned int row, const GROUP_REPLICATION_GROUP_MEMBER_STATS_CALLBACKS &to) {
  const Members members;
  put(to.set_channel_name, to.context, CHANNEL);
  if (row >= members.count) return row != 0;
  const synod_member &member = members.rows[row];
  put(to.set_member_id, to.context, member.server);
  if (!member.is_self) return false;
  synod_status status;
  synod_host_status(&status);
  const uint64_t behind =
      status.committed > status.applied ? static_cast<uint64_t>(status.committed - status.applied)
                                        : 0;
  put(to.set_transactions_committed, to.context,
      group_uuid() + ":1-" + std::to_string(status.applied));
  to.set_transactions_in_queue(to.context, 0);
  to.set_transactions_certified(to.context, static_cast<uint64_t>(status.committed));
  to.set_transactions_conflicts_detected(to.context, status.refused);
  to.set_transactions_remote_applier_queue(to.context, behind);
  to.set_transactions_local_proposed(to.context,
                                     status.ordered + status.refused + status.unknown);
  to.set_transactions_local_rollback(to.context, status.refused);
  return false;
}

/* ---- functions */

bool takes_one_text(UDF_INIT *init, UDF_ARGS *args, char *error) {
  init->maybe_null = false;
  if (args->arg_count == 1 && args->arg_type[0] == STRING_RESULT) return false;
  snprintf(error, MYSQL_ERRMSG_SIZE, "one text is wanted: the server_uuid of the new primary");
  return true;
}

bool takes_nothing(UDF_INIT *init, UDF_ARGS *args, char *error) {
  init->maybe_null = false;
  if (args->arg_count == 0) return false;
  snprintf(error, MYSQL_ERRMSG_SIZE, "no argument is wanted");
  return true;
}

char *answer(const std::string &text, char *result, unsigned long *length) {
  *length = std::min<unsigned long>(text.size(), 255);
  memcpy(result, text.data(), *length);
  return result;
}

char *set_as_primary(UDF_INIT *, UDF_ARGS *args, char *result, unsigned long *length,
                     unsigned char *, unsigned char *error) {
  const std::string server(args->args[0] == nullptr ? "" : args->args[0], args->lengths[0]);
  char why[512];
  if (synod_host_lead(server.c_str(), why, sizeof why) == 0)
    return answer("Primary server switched to: " + server, result, length);
  say(MY_ERROR_LEVEL, std::string("group_replication_set_as_primary: ") + why);
  *error = 1;
  return nullptr;
}

char *switch_to_single_primary_mode(UDF_INIT *, UDF_ARGS *, char *result, unsigned long *length,
                                    unsigned char *, unsigned char *) {
  return answer("The group is already on single-primary mode.", result, length);
}

char *get_communication_protocol(UDF_INIT *, UDF_ARGS *, char *result, unsigned long *length,
                                 unsigned char *, unsigned char *) {
  return answer(MYSQL_SERVER_VERSION, result, length);
}

const struct {
  const char *name;
  Udf_func_string call;
  Udf_func_init init;
} functions[] = {
    {"group_replication_set_as_primary", set_as_primary, takes_one_text},
    {"group_replication_switch_to_single_primary_mode", switch_to_single_primary_mode,
     takes_nothing},
    {"group_replication_get_communication_protocol", get_communication_protocol, takes_nothing},
};

#define VARIABLE(name) MYSQL_SYSVAR(name),

}  // namespace

SYS_VAR *group_replication_variables[] = {MYSQL_SYSVAR(group_name),
                                          MYSQL_SYSVAR(local_address),
                                          MYSQL_SYSVAR(group_seeds),
                                          MYSQL_SYSVAR(bootstrap_group),
                                          MYSQL_SYSVAR(start_on_boot),
                                          MYSQL_SYSVAR(single_primary_mode),
                                          MYSQL_SYSVAR(member_weight),
                                          IGNORED(VARIABLE) nullptr};

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

GroupReplicationSettings group_replication_settings() {
  GroupReplicationSettings settings;
  settings.group = var_group_name == nullptr ? "" : var_group_name;
  settings.address = var_local_address == nullptr ? "" : var_local_address;
  settings.members = var_group_seeds == nullptr ? "" : var_group_seeds;
  settings.weight = std::to_string(var_member_weight);
  settings.bootstrap = var_bootstrap_group;
  settings.starts_with_server = var_start_on_boot;
  if (!var_single_primary_mode)
    settings.problem =
        "group_replication_single_primary_mode is OFF, and one server takes writes: set it to ON";
  return settings;
}

int group_replication_init(MYSQL_PLUGIN) {
  Use<SERVICE_TYPE(udf_registration)> registration("udf_registration");
  for (const auto &function : functions) {
    if (!registration ||
        registration->udf_register(function.name, STRING_RESULT,
                                   reinterpret_cast<Udf_func_any>(function.call), function.init,
                                   nullptr))
      say(MY_WARNING_LEVEL, std::string("the function ") + function.name + " is not registered");
  }
  const std::string names = names_of_ignored();
  if (!names.empty())
    say(MY_WARNING_LEVEL, "these variables have no meaning for Synod, and are ignored: " + names);
  return 0;
}

int group_replication_deinit(MYSQL_PLUGIN) {
  Use<SERVICE_TYPE(udf_registration)> registration("udf_registration");
  for (const auto &function : functions) {
    int was_present = 0;
    if (registration) registration->udf_unregister(function.name, &was_present);
  }
  return 0;
}
