/* synod_mysql.so: the plugin of MySQL servers. EXPERIMENTAL.

   SPDX-License-Identifier: GPL-2.0-only

   It connects hooks and services of the server with the host (Rust, see synod_host.h), and decides
   nothing: which transaction commits, what is applied, and who writes is the host's matter. What it
   registers with the server comes after two checks: of the server's version, and of the layout of
   structures that the server fills. */
#define MYSQL_SERVER 1
#include <my_inttypes.h>
#include <mysql/service_mysql_alloc.h>
#include <mysql/service_rpl_transaction_ctx.h>
#include <mysql/service_rpl_transaction_write_set.h>
#include <mysql/service_srv_session.h>
#include <mysql_version.h>
#include <service_versions.h>

#include <cstdio>
#include <cstring>

#include "sql/replication.h"
#include "sql/rpl_channel_service_interface.h"
#include "synod_mysql.h"

/* The server finds these by their names, and writes the addresses in when it loads the plugin. */
#define SERVICE(type, name, version) \
  __attribute__((visibility("default"))) struct type *name = (struct type *)(version)
SERVICE(rpl_transaction_ctx_service_st, rpl_transaction_ctx_service,
        VERSION_rpl_transaction_ctx_service);
SERVICE(mysql_malloc_service_st, mysql_malloc_service, VERSION_mysql_malloc);
SERVICE(transaction_write_set_service_st, transaction_write_set_service,
        VERSION_transaction_write_set_service);
SERVICE(my_plugin_log_service, my_plugin_log_service, VERSION_my_plugin_log);
SERVICE(srv_session_service_st, srv_session_service, VERSION_srv_session_service);
SERVICE(plugin_registry_service_st, plugin_registry_service, VERSION_plugin_registry_service);

char *var_group, *var_name, *var_address, *var_members, *var_options;
bool var_bootstrap;
unsigned int var_workers;

namespace {

/* ---- checks before anything is registered */

/* Whether the server's function fills what the plugin takes for this structure, and not a byte
   beyond it. A server with another layout would otherwise damage the plugin's memory, or read what
   the plugin means otherwise. */
template <typename Structure, typename Fill>
bool has_layout(Fill fill) {
  constexpr size_t ROOM = sizeof(Structure) + 256;
  alignas(16) unsigned char a[ROOM], b[ROOM];
  memset(a, 0x5a, ROOM);
  memset(b, 0xa5, ROOM);
  fill(reinterpret_cast<Structure *>(a));
  fill(reinterpret_cast<Structure *>(b));
  size_t end = ROOM;
  /* Filled bytes are equal in both. */
  while (end > 0 && a[end - 1] != b[end - 1]) end--;
  /* The last field is filled; padding may follow it. */
  return end <= sizeof(Structure) && end + alignof(Structure) > sizeof(Structure);
}

std::string wrong_server() {
  const std::string version = variable("version");
  const std::string built = MYSQL_SERVER_VERSION;
  /* A distribution adds its own suffix. */
  const bool is_same = version.compare(0, built.size(), built) == 0 &&
                       (version.size() == built.size() || !isdigit(version[built.size()]));
  if (!is_same)
    return "it is built for MySQL " + built + ", and this server is " + version +
           ": build it against the headers of this server's version";
  const bool has_channels = has_layout<Channel_creation_info>(initialize_channel_creation_info) &&
                            has_layout<Channel_connection_info>(
                                initialize_channel_connection_info) &&
                            has_layout<Channel_ssl_info>(initialize_channel_ssl_info);
  if (!has_channels)
    return "this server has other structures than the headers that it is built against: this "
           "server is of another build of MySQL " + built;
  return "";
}

int init(MYSQL_PLUGIN plugin) {
  self = plugin;
  const std::string why = wrong_server();
  if (!why.empty()) {
    say(MY_ERROR_LEVEL, "synod_mysql.so is not loaded: " + why);
    return 1;
  }
  read_fixed();
  say(MY_WARNING_LEVEL, "Synod for MySQL is experimental: not for data that matter");
  if (initialize_channel_service_interface() ||
      register_trans_observer(&transaction_hooks, plugin) ||
      register_server_state_observer(&server_state_hooks, plugin) ||
      register_binlog_relay_io_observer(&channel_hooks, plugin)) {
    say(MY_ERROR_LEVEL, "synod_mysql.so is not loaded: the server refuses its hooks");
    return 1;
  }
  /* INSTALL PLUGIN in a running server: no hook says that it is ready. */
  if (srv_session_server_is_available()) start_with_server();
  return 0;
}

int deinit(MYSQL_PLUGIN plugin) {
  stop_host();
  return unregister_trans_observer(&transaction_hooks, plugin) ||
         unregister_server_state_observer(&server_state_hooks, plugin) ||
         unregister_binlog_relay_io_observer(&channel_hooks, plugin);
}

/* ---- variables and status */

constexpr int FIXED = PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC;
MYSQL_SYSVAR_STR(group, var_group, FIXED,
                 "UUID of the group, the same on all its servers: that of its GTIDs", nullptr,
                 nullptr, "");
MYSQL_SYSVAR_STR(name, var_name, FIXED, "Name of this server in the group", nullptr, nullptr, "");
MYSQL_SYSVAR_STR(address, var_address, FIXED, "host:port for the other members", nullptr, nullptr,
                 "");
MYSQL_SYSVAR_STR(members, var_members, FIXED,
                 "Addresses of members, host:port, separated by commas", nullptr, nullptr, "");
MYSQL_SYSVAR_STR(options, var_options, FIXED,
                 "Options of the member, name=value, separated by semicolons", nullptr, nullptr,
                 "");
MYSQL_SYSVAR_BOOL(bootstrap, var_bootstrap, PLUGIN_VAR_READONLY | PLUGIN_VAR_OPCMDARG,
                  "Begin the group with this server's data, unless its log has one already",
                  nullptr, nullptr, false);
MYSQL_SYSVAR_UINT(workers, var_workers, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                  "Threads that apply the group's transactions", nullptr, nullptr, 16, 1, 1024, 0);
SYS_VAR *variables[] = {MYSQL_SYSVAR(group),     MYSQL_SYSVAR(name),    MYSQL_SYSVAR(address),
                        MYSQL_SYSVAR(members),   MYSQL_SYSVAR(options), MYSQL_SYSVAR(bootstrap),
                        MYSQL_SYSVAR(workers), nullptr};

/* One reading of the state, shown as rows below Synod. */
int show_status(MYSQL_THD, SHOW_VAR *var, char *) {
  static thread_local synod_status status;
  static thread_local SHOW_VAR rows[11];
  synod_host_status(&status);
  if (!runs && start_problem[0] != '\0')
    snprintf(status.problem, sizeof status.problem, "%s", start_problem);
  size_t row = 0;
  auto add = [&row](const char *name, void *value, enum enum_mysql_show_type type) {
    rows[row++] = {name, static_cast<char *>(value), type, SHOW_SCOPE_GLOBAL};
  };
  add("state", status.state, SHOW_CHAR);
  add("writer", status.writer, SHOW_CHAR);
  add("problem", status.problem, SHOW_CHAR);
  add("members", status.members, SHOW_CHAR);
  add("applied", &status.applied, SHOW_LONGLONG);
  add("committed", &status.committed, SHOW_LONGLONG);
  add("ordered", &status.ordered, SHOW_LONGLONG);
  add("refused", &status.refused, SHOW_LONGLONG);
  add("unknown", &status.unknown, SHOW_LONGLONG);
  add("primary", &status.primary, SHOW_INT);
  rows[row] = {nullptr, nullptr, SHOW_LONG, SHOW_SCOPE_GLOBAL};
  var->type = SHOW_ARRAY;
  var->value = reinterpret_cast<char *>(rows);
  return 0;
}

SHOW_VAR status_variables[] = {
    {"Synod", reinterpret_cast<char *>(show_status), SHOW_FUNC, SHOW_SCOPE_GLOBAL},
    {nullptr, nullptr, SHOW_LONG, SHOW_SCOPE_GLOBAL}};

struct st_mysql_daemon info = {MYSQL_DAEMON_INTERFACE_VERSION};

}  // namespace

mysql_declare_plugin(synod){MYSQL_DAEMON_PLUGIN,
                            &info,
                            "synod",
                            "Synod",
                            "Group replication by consensus with a durable log (experimental)",
                            PLUGIN_LICENSE_GPL,
                            init,
                            nullptr,
                            deinit,
                            0x0001,
                            status_variables,
                            variables,
                            nullptr,
                            PLUGIN_OPT_NO_UNINSTALL},
    {MYSQL_GROUP_REPLICATION_PLUGIN,
     &group_replication_calls,
     "group_replication",
     "Synod",
     "Statements, tables and variables of MySQL's Group Replication, for Synod (experimental)",
     PLUGIN_LICENSE_GPL,
     group_replication_init,
     nullptr,
     group_replication_deinit,
     0x0001,
     group_replication_status,
     group_replication_variables,
     nullptr,
     PLUGIN_OPT_NO_UNINSTALL} mysql_declare_plugin_end;
