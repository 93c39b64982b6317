/* synod_mysql.so: the plugin of MySQL servers. EXPERIMENTAL.

   SPDX-License-Identifier: GPL-2.0-only

   It connects hooks and services of the server with the host (Rust, see synod_host.h), and decides
   nothing: which transaction commits, what is applied, and who writes is the host's matter. What it
   registers with the server comes after two checks: of the server's version, and of the layout of
   structures that the server fills. */
#define MYSQL_SERVER 1
#include <mysql/components/services/component_sys_var_service.h>
#include <mysql/components/services/mysql_string.h>
#include <mysql/components/services/mysql_system_variable.h>
#include <mysql/service_mysql_alloc.h>
#include <mysql/service_rpl_transaction_ctx.h>
#include <mysql/service_rpl_transaction_write_set.h>
#include <mysql/service_srv_session.h>
#include <mysql_version.h>
#include <service_versions.h>

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "my_inttypes.h"
#include "my_sys.h"
#include "mysql/gtid/tsid.h"
#include "sql/binlog_ostream.h"
#include "sql/handler.h"
#include "sql/query_options.h"
#include "sql/replication.h"
#include "sql/rpl_channel_service_interface.h"
#include "synod_host.h"
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

/* Exported by mysqld, without a header that plugins may include. */
extern char server_uuid[37];
int get_sidno_from_global_tsid_map(const mysql::gtid::Tsid &tsid);
bool get_server_encoded_gtid_executed(uchar **encoded, size_t *length);
THD *create_thd(bool plugins, bool background, bool bound, unsigned int key, unsigned int number);
void destroy_thd(THD *thd);
extern "C" int thd_killed(const void *thd);
bool thd_in_active_multi_stmt_transaction(const THD *thd);
/* Waits until gtid_executed has these; a timeout of zero: for ever. True: not in time, or killed. */
bool wait_for_gtid_set_committed(const char *gtids, double seconds, bool update_thd_status);

namespace {

/* Of stopping the applier, in seconds. */
constexpr long STOP_TIMEOUT = 60;
/* ER_GRP_TRX_CONSISTENCY_NOT_ALLOWED and _BEFORE; the server's build generates their header. */
constexpr int ER_NOT_IN_GROUP = 3796, ER_WAITING_FAILED = 3797;
/* ER_TRANS_CACHE_FULL. */
constexpr int ER_TOO_LARGE = 1197;

MYSQL_PLUGIN self;
int group_sidno;
std::atomic<bool> runs{false};
/* Nobody has asked for the member, or somebody has stopped it: clients write as to a server without
   a group, if super_read_only lets them. A server with such writes is refused by its group. */
std::atomic<bool> is_outside{false};
/* Why the host does not run. */
char start_problem[sizeof(synod_status::problem)];
/* The UUID of the group that the member was started for. */
std::string group_text;
/* Hooks of a statement and of its commit run on the client's thread. */
thread_local bool runs_alone = false;
/* When the transaction of this thread began: synod_host_opening() at its first statement. */
thread_local int64_t began = 0;

char *var_group, *var_name, *var_address, *var_members, *var_options;
bool var_bootstrap;
unsigned int var_workers;

void say(plugin_log_level level, const char *text, size_t length) {
  my_plugin_log_message(&self, level, "%.*s", static_cast<int>(length), text);
}

#ifdef SYNOD_TEST_PAUSES
/* For tests: a thread that comes to this step while a file of its name is in the data directory
   renames that, and waits until it is gone. */
void pause_at(const char *step) {
  const std::string asked = std::string("synod-pause-") + step, reached = asked + ".reached";
  if (access(asked.c_str(), F_OK) != 0 || rename(asked.c_str(), reached.c_str()) != 0) return;
  while (access(reached.c_str(), F_OK) == 0) usleep(1000);
}
#else
void pause_at(const char *) {}
#endif

/* The global value of a variable of the server; "?": it cannot be read. */
std::string variable(const char *name) {
  char buffer[2048];
  void *value = buffer;
  size_t length = sizeof buffer - 1;
#if MYSQL_VERSION_ID < 90000
  Use<SERVICE_TYPE(component_sys_variable_register)> reader("component_sys_variable_register");
  if (!reader || reader->get_variable("mysql_server", name, &value, &length)) return "?";
#else
  Use<SERVICE_TYPE(mysql_system_variable_reader)> reader("mysql_system_variable_reader");
  if (!reader || reader->get(nullptr, "GLOBAL", "mysql_server", name, &value, &length)) return "?";
#endif
  return std::string(static_cast<char *>(value), length);
}

/* A text in the server's own form. */
class Text {
 public:
  explicit Text(const char *text)
      : factory_("mysql_string_factory"), converter_("mysql_string_converter") {
    if (factory_ && converter_ &&
        converter_->convert_from_buffer(&text_, text, strlen(text), "utf8mb4"))
      text_ = nullptr;
  }
  ~Text() {
    if (text_ != nullptr) factory_->destroy(text_);
  }
  Text(const Text &) = delete;
  Text &operator=(const Text &) = delete;
  my_h_string get() const { return text_; }

 private:
  Use<SERVICE_TYPE(mysql_string_factory)> factory_;
  Use<SERVICE_TYPE(mysql_string_converter)> converter_;
  my_h_string text_ = nullptr;
};

bool set_variable(const char *name, const char *value) {
  Use<SERVICE_TYPE(mysql_system_variable_update_string)> update(
      "mysql_system_variable_update_string");
  Text name_text(name), value_text(value);
  if (!update || name_text.get() == nullptr || value_text.get() == nullptr) return true;
  return update->set(nullptr, "GLOBAL", nullptr, name_text.get(), value_text.get());
}

bool set_number(const char *name, unsigned long long value) {
  Use<SERVICE_TYPE(mysql_system_variable_update_integer)> update(
      "mysql_system_variable_update_integer");
  Text name_text(name);
  if (!update || name_text.get() == nullptr) return true;
  return update->set_unsigned(nullptr, "GLOBAL", nullptr, name_text.get(), value);
}

/* ---- the table of the host */

void host_log(int32_t level, const char *text, size_t length) {
  const plugin_log_level as[] = {MY_INFORMATION_LEVEL, MY_INFORMATION_LEVEL, MY_WARNING_LEVEL,
                                 MY_ERROR_LEVEL};
  if (level == SYNOD_DEBUG) return;
  say(as[level < 0 || level > SYNOD_ERROR ? SYNOD_ERROR : level], text, length);
}

/* Without a session: the server gives the calls of a channel one of its own where they need it, and
   crashes in channel_create (9.7.4) in a thread that has a session without a client. */
int32_t thread_begin(void **thread) {
  *thread = nullptr;
  return !srv_session_server_is_available() || srv_session_init_thread(self);
}

/* Of the thread that queues events. A write of the relay log that finds no room on the disk waits
   for it by the THD of its thread: without one the server crashes there (9.7.4). */
thread_local THD *queuing = nullptr;

void thread_end(void *) {
  if (queuing != nullptr) destroy_thd(queuing);
  queuing = nullptr;
  srv_session_deinit_thread();
}

int32_t channel_create_empty() {
  Channel_creation_info info;
  initialize_channel_creation_info(&info);
  char host[] = "<NULL>";
  info.type = GROUP_REPLICATION_CHANNEL;
  info.hostname = host;
  info.port = 0;
  info.preserve_relay_logs = false;
  info.channel_mts_parallel_workers = static_cast<int>(var_workers);
  /* Transactions of this server that it lost in a crash come back. */
  info.replicate_same_server_id = 1;
  /* A client that is in the way of a row that the group has changed gives way. */
  info.thd_tx_priority = 1;
  return channel_create(CHANNEL, &info);
}

int32_t channel_start_applier() {
  Channel_connection_info info;
  initialize_channel_connection_info(&info);
  return channel_start(CHANNEL, &info, CHANNEL_APPLIER_THREAD, 0);
}

int32_t channel_stop_applier() {
  if (!channel_is_active(CHANNEL, CHANNEL_APPLIER_THREAD)) return 0;
  return channel_stop(CHANNEL, CHANNEL_APPLIER_THREAD, STOP_TIMEOUT);
}

int32_t channel_queue(const uint8_t *event, size_t length) {
  constexpr uint8_t XID_EVENT = 16, GTID_EVENT = 33;
  const uint8_t type = event[4];
  if (queuing == nullptr) queuing = create_thd(false, true, true, 0, 0);
  if (type == GTID_EVENT) pause_at("received");
  if (type == XID_EVENT) pause_at("half-queued");
  return channel_queue_packet(CHANNEL, reinterpret_cast<const char *>(event), length);
}

int32_t channel_is_applying() { return channel_is_active(CHANNEL, CHANNEL_APPLIER_THREAD); }

int32_t executed(void *context, void (*take)(void *, const uint8_t *, size_t)) {
  uchar *encoded = nullptr;
  size_t length = 0;
  if (get_server_encoded_gtid_executed(&encoded, &length)) return 1;
  take(context, encoded, length);
  my_free(encoded);
  return 0;
}

int32_t set_read_only(int32_t on) {
  /* The second ends super_read_only, too. */
  return on ? set_variable("super_read_only", "ON") : set_variable("read_only", "OFF");
}

int32_t set_offline(int32_t on) { return set_variable("offline_mode", on ? "ON" : "OFF"); }

int32_t set_flush(int32_t on) { return set_number("innodb_flush_log_at_trx_commit", on ? 1 : 0); }

const synod_server table = {SYNOD_HOST_INTERFACE, host_log,      thread_begin,
                            thread_end,           channel_create_empty, channel_start_applier,
                            channel_stop_applier, channel_queue, channel_is_applying,
                            executed,             set_read_only, set_offline,
                            set_flush};

/* ---- transactions of clients */

struct Commit {
  Binlog_cache_storage *cache;
  THD *thd;
};

using Take = int32_t (*)(void *to, const uint8_t *piece, size_t length);

/* Where the pieces of a binlog cache go. */
class Pieces : public Basic_ostream {
 public:
  Pieces(void *to, Take take) : to_(to), take_(take) {}
  bool write(const unsigned char *bytes, my_off_t length) override {
    return take_(to_, bytes, length) != 0;
  }

 private:
  void *to_;
  Take take_;
};

int32_t read_cache(void *context, void *to, Take take) {
  Pieces pieces(to, take);
  return static_cast<Commit *>(context)->cache->copy_to(&pieces);
}

int32_t is_killed(void *context) { return thd_killed(static_cast<Commit *>(context)->thd); }

int32_t is_thread_killed(void *thread) { return thd_killed(static_cast<THD *>(thread)); }

int refuse(Trans_param *param) {
  Transaction_termination_ctx end{};
  end.m_thread_id = param->thread_id;
  end.m_rollback_transaction = true;
  end.m_generated_gtid = false;
  end.m_sidno = -1;
  end.m_gno = -1;
  return set_transaction_ctx(end);
}

int before_commit(Trans_param *param) {
  /* The group has decided it: this is its applier. */
  if (param->rpl_channel_type == GR_APPLIER_CHANNEL) return 0;
  if (is_outside) return 0;
  const bool alone = runs_alone;
  runs_alone = false;
  /* A GTID of the client's own, or a replica's of another source, is none of the group. */
  if (!runs || param->gtid_info.type != 0 || param->rpl_channel_type != NO_CHANNEL_INFO)
    return refuse(param);
  Commit commit{};
  commit.thd = param->thd;
  const bool is_transactional = !param->trx_cache_log->is_empty();
  /* Rows of other engines beside those of transactions would be committed already. */
  if (is_transactional && !param->stmt_cache_log->is_empty()) return refuse(param);
  commit.cache = is_transactional ? param->trx_cache_log : param->stmt_cache_log;

  Transaction_write_set *keys = get_transaction_write_set(param->thread_id);
  synod_transaction transaction{};
  transaction.context = &commit;
  transaction.read = read_cache;
  transaction.is_killed = is_killed;
  transaction.bytes = commit.cache->length();
  static_assert(sizeof(unsigned long long) == sizeof(uint64_t));
  if (keys != nullptr) {
    transaction.hashes = reinterpret_cast<const uint64_t *>(keys->write_set);
    transaction.hash_count = keys->write_set_size;
  }
  transaction.runs_alone = alone || param->is_atomic_ddl;
  transaction.waits_for_others =
      param->group_replication_consistency >= GROUP_REPLICATION_CONSISTENCY_AFTER;
  /* A statement that is its own transaction has passed super_read_only, and closing for writes
     waits for its end. */
  const bool has_more = thd_test_options(param->thd, OPTION_BEGIN | OPTION_NOT_AUTOCOMMIT) != 0;
  transaction.began = has_more ? began : -1;
  int64_t number = 0;
  pause_at("asking");
  const int32_t decision = synod_host_commit(&transaction, &number);
  if (keys != nullptr) {
    my_free(keys->write_set);
    my_free(keys);
  }
  switch (decision) {
    case SYNOD_ORDERED: {
      pause_at("decided");
      Transaction_termination_ctx with{};
      with.m_thread_id = param->thread_id;
      with.m_generated_gtid = true;
      with.m_sidno = group_sidno;
      with.m_gno = number;
      return set_transaction_ctx(with);
    }
    case SYNOD_TOO_LARGE:
      /* The first error is the one that the client gets. */
      my_printf_error(ER_TOO_LARGE,
                      "The transaction is larger than its group takes, and is committed nowhere: "
                      "split it (its binlog events have %llu bytes; see the error log)",
                      MYF(0), static_cast<unsigned long long>(transaction.bytes));
      return refuse(param);
    case SYNOD_REFUSED:
      return refuse(param);
    default:
      /* Another error than that of a refusal: the transaction may be committed later. */
      return 1;
  }
}

/* A row without a key cannot be found by others, and other engines cannot roll back. */
int before_dml(Trans_param *param, int &out) {
  out = 0;
  if (param->rpl_channel_type == GR_APPLIER_CHANNEL || is_outside) return 0;
  if (!param->trans_ctx_info.binlog_enabled) return 0;
  for (uint at = 0; at < param->number_of_tables; at++) {
    const Trans_table_info &table = param->tables_info[at];
    runs_alone |= table.has_cascade_foreign_key;
    const bool is_other_engine = table.db_type != DB_TYPE_INNODB;
    if (!is_other_engine && table.number_of_primary_keys > 0) continue;
    out = 1;
    say(MY_WARNING_LEVEL,
        std::string("a write is refused: table ") + table.table_name +
            (is_other_engine ? " is not of InnoDB" : " has no primary key, by which other servers "
                                                     "find its rows"));
  }
  return 0;
}

/* Whether this server has what the transaction must see, by group_replication_consistency. */
bool sees_enough(Trans_param *param) {
  const auto level = param->group_replication_consistency;
  if (level == GROUP_REPLICATION_CONSISTENCY_EVENTUAL ||
      level == GROUP_REPLICATION_CONSISTENCY_AFTER)
    return true;
  const bool latest = level != GROUP_REPLICATION_CONSISTENCY_BEFORE_ON_PRIMARY_FAILOVER;
  const auto seconds = static_cast<uint32_t>(std::min(param->hold_timeout, 31536000UL));
  int64_t number = 0;
  char why[sizeof start_problem];
  if (synod_host_position(latest ? SYNOD_LATEST : SYNOD_NEW_WRITER, seconds, param->thd,
                          is_thread_killed, &number, why, sizeof why) != 0) {
    say(MY_WARNING_LEVEL, std::string("a transaction with group_replication_consistency is not "
                                      "begun: ") + why);
    return false;
  }
  if (number == 0) return true;
  const std::string gtids = group_uuid() + ":1-" + std::to_string(number);
  return !wait_for_gtid_set_committed(gtids.c_str(), seconds, true);
}

bool follows_group() {
  synod_status status;
  synod_host_status(&status);
  return strcmp(status.state, "replica") == 0 || strcmp(status.state, "writer") == 0;
}

int nothing(Trans_param *) { return 0; }
int after_commit(Trans_param *param) {
  if (param->rpl_channel_type == NO_CHANNEL_INFO) pause_at("committed");
  return 0;
}
int after_end(Trans_param *) {
  runs_alone = false;
  return 0;
}
/* Called for BEGIN, and for statements outside of its transaction. With autocommit off, also for
   those within one. */
int begin(Trans_param *param, int &out) {
  out = 0;
  /* An applier brings what others wait for. */
  if (is_outside || param->rpl_channel_type != NO_CHANNEL_INFO ||
      thd_in_active_multi_stmt_transaction(param->thd))
    return 0;
  /* Of the server's errors, one without arguments: it formats what it is given. */
  if (!sees_enough(param)) out = follows_group() ? ER_WAITING_FAILED : ER_NOT_IN_GROUP;
  began = synod_host_opening();
  return 0;
}

Trans_observer transactions = {sizeof(Trans_observer), before_dml, before_commit, nothing,
                               after_commit,           after_end,  begin};

/* ---- life of the server */

/* Values that do not change while the server runs. They are texts, which the server gives to a
   thread with a session only (9.7.4 crashes in the thread that is about to let clients in): they
   are read when the plugin is loaded. */
struct Fixed {
  std::string data_dir, version, server_id;
  OwnAddress address;
} fixed;

void read_fixed() {
  const auto either = [](const char *name, const char *other) {
    const std::string value = variable(name);
    return value.empty() || value == "?" || value == "0" ? variable(other) : value;
  };
  fixed.data_dir = variable("datadir");
  fixed.version = variable("version");
  fixed.server_id = variable("server_id");
  fixed.address.host = either("report_host", "hostname");
  fixed.address.port =
      static_cast<unsigned int>(strtoul(either("report_port", "port").c_str(), nullptr, 10));
}

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
  chosen.name = first(var_name, other.group.empty() ? "" : "server" + fixed.server_id);
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
  settings.server_id = static_cast<uint32_t>(strtoul(fixed.server_id.c_str(), nullptr, 10));
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
  const std::string ignored = ignored_variables();
  if (!ignored.empty())
    say(MY_WARNING_LEVEL, "these variables have no meaning for Synod, and are ignored: " + ignored);
  const Chosen chosen = choose(other);
  mysql::gtid::Tsid group;
  if (group.from_cstring(chosen.group.c_str()) == 0)
    return "synod_group is not set to the UUID of the group";
  const Closed closed;
  group_sidno = get_sidno_from_global_tsid_map(group);
  group_text = chosen.group;
  const synod_settings settings = as_settings(chosen);
  char text[sizeof start_problem];
  if (synod_host_start(&table, &settings, text, sizeof text) != 0) return text;
  start_problem[0] = '\0';
  runs = true;
  return "";
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

int state_nothing(Server_state_param *) { return 0; }
int before_clients(Server_state_param *) {
  start_with_server();
  return 0;
}
int before_shutdown(Server_state_param *) {
  if (runs) synod_host_leave();
  runs = false;
  synod_host_stop();
  return 0;
}

Server_state_observer server_states = {sizeof(Server_state_observer),
                                       before_clients,
                                       state_nothing,
                                       state_nothing,
                                       state_nothing,
                                       before_shutdown,
                                       state_nothing,
                                       state_nothing};

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
  if (initialize_channel_service_interface() || register_trans_observer(&transactions, plugin) ||
      register_server_state_observer(&server_states, plugin)) {
    say(MY_ERROR_LEVEL, "synod_mysql.so is not loaded: the server refuses its hooks");
    return 1;
  }
  /* INSTALL PLUGIN in a running server: no hook says that it is ready. */
  if (srv_session_server_is_available()) start_with_server();
  return 0;
}

int deinit(MYSQL_PLUGIN plugin) {
  before_shutdown(nullptr);
  return unregister_trans_observer(&transactions, plugin) ||
         unregister_server_state_observer(&server_states, plugin);
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

void say(plugin_log_level level, const std::string &text) { say(level, text.data(), text.size()); }

bool member_runs() { return runs; }

std::string start_member() {
  const std::string why = self == nullptr ? "the plugin synod of the same file is not loaded: "
                                            "INSTALL PLUGIN synod SONAME 'synod_mysql.so'"
                                          : try_to_start();
  if (why.empty()) return why;
  snprintf(start_problem, sizeof start_problem, "%s", why.c_str());
  say(MY_ERROR_LEVEL, "this server takes no part in its group, and no writes: " + why);
  return why;
}

/* Nothing that is not the group's is written afterwards. The server is closed after the member has
   ended the waits of commits, for which closing would wait. */
void stop_member() {
  before_shutdown(nullptr);
  set_read_only(1);
  /* As the member found it. */
  set_flush(1);
  is_outside = true;
}

std::string group_uuid() { return group_text; }

std::string own_uuid() { return server_uuid; }

OwnAddress own_address() { return fixed.address; }

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
     nullptr,
     group_replication_variables,
     nullptr,
     PLUGIN_OPT_NO_UNINSTALL} mysql_declare_plugin_end;
