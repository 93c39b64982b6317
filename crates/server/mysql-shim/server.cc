/* The server as the host uses it (the table of synod_host.h): its log, threads, variables, and the
   channel of the applier.

   SPDX-License-Identifier: GPL-2.0-only */
#define MYSQL_SERVER 1
#include <mysql/components/services/component_sys_var_service.h>
#include <mysql/components/services/mysql_string.h>
#include <mysql/components/services/mysql_system_variable.h>
#include <mysql/service_mysql_alloc.h>
#include <mysql/service_srv_session.h>
#include <mysql_version.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "my_inttypes.h"
#include "my_sys.h"
#include "sql/rpl_channel_service_interface.h"
#include "synod_mysql.h"

/* Exported by mysqld, without a header that plugins may include. */
bool get_server_encoded_gtid_executed(uchar **encoded, size_t *length);
THD *create_thd(bool plugins, bool background, bool bound, unsigned int key, unsigned int number);
void destroy_thd(THD *thd);

MYSQL_PLUGIN self;

void say(plugin_log_level level, const std::string &text) {
  my_plugin_log_message(&self, level, "%.*s", static_cast<int>(text.size()), text.c_str());
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

namespace {

/* Of stopping the applier, in seconds. */
constexpr long STOP_TIMEOUT = 60;

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

bool set_number(const char *name, unsigned long long value) {
  Use<SERVICE_TYPE(mysql_system_variable_update_integer)> update(
      "mysql_system_variable_update_integer");
  Text name_text(name);
  if (!update || name_text.get() == nullptr) return true;
  return update->set_unsigned(nullptr, "GLOBAL", nullptr, name_text.get(), value);
}

void host_log(int32_t level, const char *text, size_t length) {
  const plugin_log_level as[] = {MY_INFORMATION_LEVEL, MY_INFORMATION_LEVEL, MY_WARNING_LEVEL,
                                 MY_ERROR_LEVEL};
  if (level == SYNOD_DEBUG) return;
  say(as[level < 0 || level > SYNOD_ERROR ? SYNOD_ERROR : level], std::string(text, length));
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

int32_t flushes() { return variable("innodb_flush_log_at_trx_commit") == "1"; }

int32_t set_offline(int32_t on) { return set_variable("offline_mode", on ? "ON" : "OFF"); }

}  // namespace

bool set_variable(const char *name, const char *value) {
  Use<SERVICE_TYPE(mysql_system_variable_update_string)> update(
      "mysql_system_variable_update_string");
  Text name_text(name), value_text(value);
  if (!update || name_text.get() == nullptr || value_text.get() == nullptr) return true;
  return update->set(nullptr, "GLOBAL", nullptr, name_text.get(), value_text.get());
}

int32_t set_read_only(int32_t on) {
  /* The second ends super_read_only, too. */
  return on ? set_variable("super_read_only", "ON") : set_variable("read_only", "OFF");
}

int32_t set_flush(int32_t on) { return set_number("innodb_flush_log_at_trx_commit", on ? 1 : 0); }

const synod_server server_calls = {SYNOD_HOST_INTERFACE, host_log,      thread_begin,
                            thread_end,           channel_create_empty, channel_start_applier,
                            channel_stop_applier, channel_queue, channel_is_applying,
                            executed,             set_read_only, set_offline,
                            set_flush,            flushes};
