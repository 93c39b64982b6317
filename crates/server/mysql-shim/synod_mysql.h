/* What the files of the plugin share.

   SPDX-License-Identifier: GPL-2.0-only */
#ifndef SYNOD_MYSQL_H
#define SYNOD_MYSQL_H

#include <mysql/components/services/registry.h>
#include <mysql/plugin.h>
#include <mysql/plugin_group_replication.h>
#include <mysql/service_my_plugin_log.h>
#include <mysql/service_plugin_registry.h>

#include <string>

#include "synod_host.h"

/* The server treats a channel of this name as that of a group: users cannot change or start it. */
inline const char *const CHANNEL = "group_replication_applier";

/* A service of the server's components, for as long as it is used. */
template <typename Service>
class Use {
 public:
  explicit Use(const char *name) : registry_(mysql_plugin_registry_acquire()) {
    if (registry_ != nullptr && registry_->acquire(name, &handle_)) handle_ = nullptr;
  }
  ~Use() {
    if (handle_ != nullptr) registry_->release(handle_);
    if (registry_ != nullptr) mysql_plugin_registry_release(registry_);
  }
  Use(const Use &) = delete;
  Use &operator=(const Use &) = delete;
  explicit operator bool() const { return handle_ != nullptr; }
  Service *operator->() const { return reinterpret_cast<Service *>(handle_); }

 private:
  SERVICE_TYPE(registry) * registry_;
  my_h_service handle_ = nullptr;
};

void say(plugin_log_level level, const std::string &text);

/* The member, by its plugin "synod". */
bool member_runs();
/* Returns why it has not started; empty: it has. */
std::string start_member();
void stop_member();
/* The UUID of its group's GTIDs. */
std::string group_uuid();
std::string own_uuid();
struct OwnAddress {
  std::string host;
  unsigned int port;
};
/* The server's, for clients. */
OwnAddress own_address();

/* Servers that are present in the group. */
class Members {
 public:
  Members() : count_(synod_host_members(rows_, sizeof rows_ / sizeof *rows_)) {}
  size_t size() const { return count_; }
  const synod_member &operator[](size_t row) const { return rows_[row]; }
  const synod_member *begin() const { return rows_; }
  const synod_member *end() const { return rows_ + count_; }

 private:
  synod_member rows_[64];
  const size_t count_;
};

/* The plugin "group_replication": variables and calls of MySQL's own, for the same member. */
struct GroupReplicationSettings {
  std::string group, address, members, weight;
  bool bootstrap, starts_with_server;
  /* Why the member cannot start as these variables say; empty: it can. */
  std::string problem;
};
GroupReplicationSettings group_replication_settings();
/* Names of the variables that are set, and mean nothing here. */
std::string ignored_variables();
/* Why a group has one writer. */
extern const char *const ONE_WRITER;
void register_functions();
void unregister_functions();
extern st_mysql_group_replication group_replication_calls;
extern SYS_VAR *group_replication_variables[];
int group_replication_init(MYSQL_PLUGIN plugin);
int group_replication_deinit(MYSQL_PLUGIN plugin);

#endif
