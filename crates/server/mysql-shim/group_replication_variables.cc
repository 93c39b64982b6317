/* Variables of the plugin "group_replication": all that MySQL's own has, with its types, defaults
   and bounds, so that configurations stay, and tools can set what they are used to set.

   SPDX-License-Identifier: GPL-2.0-only */
#include <mysql_version.h>

#include <cstring>
#include <string_view>

#include "my_inttypes.h"
#include "my_sys.h"
#include "mysql/gtid/tsid.h"
#include "synod_mysql.h"
#include "typelib.h"

namespace {

/* Of a header that the server's build generates. */
constexpr unsigned int ER_WRONG_VALUE = 1231, ER_WRONG_TYPE = 1232, ER_RUNNING = 3093;

constexpr int TEXT = PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC;

/* ---- those that have a meaning */

int refuse(unsigned int error, const std::string &why) {
  my_message(error, why.c_str(), 0);
  return 1;
}

char *var_group_name, *var_local_address, *var_group_seeds;
bool var_bootstrap_group, var_start_on_boot, var_single_primary_mode;
unsigned int var_member_weight;

const std::string NO_UUID = "The group_replication_group_name is not a valid UUID";

int check_group_name(MYSQL_THD, SYS_VAR *, void *save, st_mysql_value *value) {
  /* The server copies it, later in the same statement. */
  static thread_local std::string kept;
  char buffer[128];
  int length = sizeof buffer;
  const char *text = value->val_str(value, buffer, &length);
  kept.assign(text == nullptr ? "" : text, text == nullptr ? 0 : static_cast<size_t>(length));
  *static_cast<const char **>(save) = kept.c_str();
  if (member_runs())
    return refuse(ER_RUNNING, "The group_replication_group_name cannot be changed when Group "
                              "Replication is running");
  mysql::gtid::Tsid group;
  return kept.size() == 36 && group.from_cstring(kept.c_str()) != 0
             ? 0
             : refuse(ER_WRONG_VALUE,
                      kept.size() > 36 ? NO_UUID + ", its length is too big" : NO_UUID);
}

int check_one_writer(MYSQL_THD, SYS_VAR *, void *save, st_mysql_value *value) {
  long long number = 0;
  char buffer[16];
  int length = sizeof buffer;
  if (value->value_type(value) == MYSQL_VALUE_TYPE_STRING) {
    const char *text = value->val_str(value, buffer, &length);
    number = text != nullptr && (strcasecmp(text, "ON") == 0 || strcasecmp(text, "TRUE") == 0);
  } else {
    value->val_int(value, &number);
  }
  *static_cast<bool *>(save) = true;
  return number == 1 ? 0 : refuse(ER_WRONG_VALUE, ONE_WRITER);
}

/* The server would cut a number that is out of bounds. */
int check_number(const char *name, unsigned long long low, unsigned long long high, void *save,
                 st_mysql_value *value) {
  if (value->value_type(value) != MYSQL_VALUE_TYPE_INT) {
    my_error(ER_WRONG_TYPE, 0, name);
    return 1;
  }
  long long number = 0;
  value->val_int(value, &number);
  const auto positive = static_cast<unsigned long long>(number);
  const bool is_negative = number < 0 && !value->is_unsigned(value);
  if (is_negative || positive < low || positive > high)
    return refuse(ER_WRONG_VALUE,
                  "The value " + (is_negative ? std::to_string(number) : std::to_string(positive)) +
                      " is not within the range of accepted values for the option " + name +
                      ". The value must be between " + std::to_string(low) + " and " +
                      std::to_string(high) + " inclusive.");
  *static_cast<unsigned long long *>(save) = positive;
  return 0;
}

MYSQL_SYSVAR_STR(group_name, var_group_name, TEXT, "UUID of the group: as synod_group",
                 check_group_name, nullptr, "");
MYSQL_SYSVAR_STR(local_address, var_local_address, TEXT,
                 "host:port for the other members: as synod_address", nullptr, nullptr, "");
MYSQL_SYSVAR_STR(group_seeds, var_group_seeds, TEXT, "Addresses of members: as synod_members",
                 nullptr, nullptr, "");
MYSQL_SYSVAR_BOOL(bootstrap_group, var_bootstrap_group, PLUGIN_VAR_OPCMDARG,
                  "Begin the group at START GROUP_REPLICATION: as synod_bootstrap", nullptr,
                  nullptr, false);
MYSQL_SYSVAR_BOOL(start_on_boot, var_start_on_boot, PLUGIN_VAR_OPCMDARG,
                  "Start the member with the server", nullptr, nullptr, true);
MYSQL_SYSVAR_BOOL(single_primary_mode, var_single_primary_mode, PLUGIN_VAR_OPCMDARG,
                  "One server takes writes: always ON", check_one_writer, nullptr, true);
MYSQL_SYSVAR_UINT(member_weight, var_member_weight, PLUGIN_VAR_RQCMDARG,
                  "How much this server is preferred as the writer, from its next start on: as "
                  "synod.leader_weight", nullptr, nullptr, 50, 0, 100, 0);

/* ---- those that have none */

const char *const IGNORED = "Ignored by Synod";
constexpr unsigned long long MAX_64 = ~0ULL, MAX_63 = MAX_64 >> 1, MAX_31 = 2147483647,
                             YEAR_SECONDS = 31536000;

#define TEXTS(one)                                                                              \
  one(advertise_recovery_endpoints, "DEFAULT")                                                  \
  one(communication_debug_options, "GCS_DEBUG_NONE") one(communication_stack, "XCOM")           \
  one(force_members, "") one(ip_allowlist, "AUTOMATIC")                                         \
  one(recovery_compression_algorithms, "uncompressed") one(recovery_public_key_path, nullptr)   \
  one(recovery_ssl_ca, nullptr) one(recovery_ssl_capath, nullptr)                               \
  one(recovery_ssl_cert, nullptr) one(recovery_ssl_cipher, nullptr)                             \
  one(recovery_ssl_crl, nullptr) one(recovery_ssl_crlpath, nullptr)                             \
  one(recovery_ssl_key, nullptr) one(recovery_tls_ciphersuites, nullptr)                        \
  one(recovery_tls_version, "TLSv1.2,TLSv1.3") one(view_change_uuid, "AUTOMATIC")

#if MYSQL_VERSION_ID < 90000
#define BOOLEANS_OF_SERIES(one) one(allow_local_lower_version_join, false)
#else
#define BOOLEANS_OF_SERIES(one)
#endif
#define BOOLEANS(one)                                                                           \
  one(enforce_update_everywhere_checks, false) one(paxos_single_leader, false)                  \
  one(preemptive_garbage_collection, false) one(recovery_get_public_key, false)                 \
  one(recovery_ssl_verify_server_cert, false) one(recovery_use_ssl, true)                       \
  BOOLEANS_OF_SERIES(one)

#define NUMBERS(one)                                                                            \
  one(auto_increment_increment, 7, 1, 65535) one(autorejoin_tries, 3, 0, 2016)                  \
  one(clone_threshold, MAX_63, 1, MAX_63)                                                       \
  one(communication_max_message_size, 10485760, 0, 1073741824)                                  \
  one(components_stop_timeout, 300, 2, YEAR_SECONDS)                                            \
  one(compression_threshold, 1000000, 0, 4294967295)                                            \
  one(flow_control_applier_threshold, 25000, 0, MAX_31)                                         \
  one(flow_control_certifier_threshold, 25000, 0, MAX_31)                                       \
  one(flow_control_hold_percent, 10, 0, 100) one(flow_control_max_quota, 0, 0, MAX_31)          \
  one(flow_control_member_quota_percent, 0, 0, 100) one(flow_control_min_quota, 0, 0, MAX_31)   \
  one(flow_control_min_recovery_quota, 0, 0, MAX_31) one(flow_control_period, 1, 1, 60)         \
  one(flow_control_release_percent, 50, 0, 1000)                                                \
  one(gtid_assignment_block_size, 1000000, 1, MAX_63) one(member_expel_timeout, 5, 0, 3600)     \
  one(message_cache_size, 1073741824, 134217728, MAX_64) one(poll_spin_loops, 0, 0, MAX_64)     \
  one(preemptive_garbage_collection_rows_threshold, 100000, 10000, 100000000)                   \
  one(recovery_reconnect_interval, 60, 0, YEAR_SECONDS)                                         \
  one(recovery_retry_count, 10, 0, YEAR_SECONDS)                                                \
  one(recovery_zstd_compression_level, 3, 1, 22)                                               \
  one(transaction_size_limit, 150000000, 0, MAX_31)                                             \
  one(unreachable_majority_timeout, 0, 0, YEAR_SECONDS)

const char *actions[] = {"READ_ONLY", "ABORT_SERVER", "OFFLINE_MODE", nullptr},
           *flow_modes[] = {"DISABLED", "QUOTA", nullptr},
           *ssl_modes[] = {"DISABLED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY", nullptr},
           *tls_sources[] = {"MYSQL_MAIN", "MYSQL_ADMIN", nullptr};
#define CHOICES(one)                                                               \
  one(exit_state_action, actions, 2) one(flow_control_mode, flow_modes, 1)         \
  one(ssl_mode, ssl_modes, 1) one(tls_source, tls_sources, 0)

/* Statements that have it stay must fail, as a next start would repeat what it orders. */
constexpr int flags_of(std::string_view name) {
  return name == "force_members" ? PLUGIN_VAR_NOPERSIST : 0;
}

/* Of MySQL's own, most are cut by the server. */
constexpr bool is_cut(std::string_view name) {
  return name != "clone_threshold" && name != "communication_max_message_size" &&
         name != "compression_threshold" && name != "member_expel_timeout" &&
         name != "message_cache_size";
}

bool differ(const char *a, const char *b) {
  return strcmp(a == nullptr ? "" : a, b == nullptr ? "" : b) != 0;
}

#define DECLARE_TEXT(name, standard)                                              \
  char *var_##name;                                                               \
  bool is_set_##name() { return differ(var_##name, standard); }                   \
  MYSQL_SYSVAR_STR(name, var_##name, TEXT | flags_of(#name), IGNORED, nullptr, nullptr, standard);
TEXTS(DECLARE_TEXT)

#define DECLARE_BOOLEAN(name, standard)                                           \
  bool var_##name;                                                                \
  bool is_set_##name() { return var_##name != standard; }                         \
  MYSQL_SYSVAR_BOOL(name, var_##name, PLUGIN_VAR_OPCMDARG, IGNORED, nullptr, nullptr, standard);
BOOLEANS(DECLARE_BOOLEAN)

#define DECLARE_NUMBER(name, standard, min, max)                                  \
  unsigned long long var_##name;                                                  \
  bool is_set_##name() { return var_##name != standard; }                         \
  int check_##name(MYSQL_THD, SYS_VAR *, void *save, st_mysql_value *value) {     \
    return check_number("group_replication_" #name, min, max, save, value);        \
  }                                                                               \
  MYSQL_SYSVAR_ULONGLONG(name, var_##name, PLUGIN_VAR_RQCMDARG, IGNORED,          \
                         is_cut(#name) ? nullptr : check_##name, nullptr, standard, min, max, 0);
NUMBERS(DECLARE_NUMBER)

#define DECLARE_CHOICE(name, names, standard)                                     \
  unsigned long var_##name;                                                       \
  TYPELIB list_##name = {sizeof names / sizeof *names - 1, "", names, nullptr};   \
  bool is_set_##name() { return var_##name != standard; }                         \
  MYSQL_SYSVAR_ENUM(name, var_##name, PLUGIN_VAR_RQCMDARG, IGNORED, nullptr, nullptr, standard, \
                    &list_##name);
CHOICES(DECLARE_CHOICE)

#define ALL_IGNORED(one) TEXTS(one) BOOLEANS(one) NUMBERS(one) CHOICES(one)
const struct {
  const char *name;
  bool (*is_set)();
} ignored[] = {
#define ROW(name, ...) {#name, is_set_##name},
    ALL_IGNORED(ROW)};

}  // namespace

const char *const ONE_WRITER =
    "one server takes the writes of a group of Synod: with several, a change of definitions from "
    "another server would wait for the locks of this one's clients, and a client in the way of an "
    "applier would get an error. See 'Several writers' in docs/operating/mysql.md";

std::string ignored_variables() {
  std::string names;
  for (const auto &variable : ignored) {
    if (!variable.is_set()) continue;
    names += (names.empty() ? "group_replication_" : ", group_replication_");
    names += variable.name;
  }
  return names;
}

GroupReplicationSettings group_replication_settings() {
  GroupReplicationSettings settings;
  settings.group = var_group_name == nullptr ? "" : var_group_name;
  settings.address = var_local_address == nullptr ? "" : var_local_address;
  settings.members = var_group_seeds == nullptr ? "" : var_group_seeds;
  settings.weight = std::to_string(var_member_weight);
  settings.bootstrap = var_bootstrap_group;
  settings.starts_with_server = var_start_on_boot;
  if (!var_single_primary_mode)
    settings.problem = std::string("group_replication_single_primary_mode is OFF: ") + ONE_WRITER;
  return settings;
}

SYS_VAR *group_replication_variables[] = {
    MYSQL_SYSVAR(group_name),          MYSQL_SYSVAR(local_address),
    MYSQL_SYSVAR(group_seeds),         MYSQL_SYSVAR(bootstrap_group),
    MYSQL_SYSVAR(start_on_boot),       MYSQL_SYSVAR(single_primary_mode),
    MYSQL_SYSVAR(member_weight),
#define VARIABLE(name, ...) MYSQL_SYSVAR(name),
    ALL_IGNORED(VARIABLE) nullptr};
