/* Channels from sources outside the group. What they apply is in no binlog (log_replica_updates is
   OFF), so the group would not hear of it, and this server's data would differ from the others'.

   SPDX-License-Identifier: GPL-2.0-only */
#define MYSQL_SERVER 1
#include <my_inttypes.h>

#include <cstring>

#include "sql/replication.h"
#include "sql/rpl_channel_service_interface.h"
#include "synod_mysql.h"

namespace {

int allows(Binlog_relay_IO_param *param) {
  const char *name = param->channel_name == nullptr ? "" : param->channel_name;
  if (is_outside || strcmp(name, CHANNEL) == 0) return 0;
  say(MY_ERROR_LEVEL,
      std::string("channel '") + name + "' is not started: a server of a group takes nothing from "
      "other sources, because the group would not hear of it. Have it write to the group as a "
      "client does, or STOP GROUP_REPLICATION here first");
  return 1;
}

int nothing(Binlog_relay_IO_param *) { return 0; }
int stopped(Binlog_relay_IO_param *, bool) { return 0; }
int before_request(Binlog_relay_IO_param *, uint32) { return 0; }
int after_read(Binlog_relay_IO_param *, const char *packet, unsigned long length,
               const char **event, unsigned long *event_length) {
  *event = packet;
  *event_length = length;
  return 0;
}
int after_queue(Binlog_relay_IO_param *, const char *, unsigned long, uint32) { return 0; }
int before_apply(Binlog_relay_IO_param *, Trans_param *, int &out) {
  out = 0;
  return 0;
}

}  // namespace

Binlog_relay_IO_observer channel_hooks = {sizeof(Binlog_relay_IO_observer),
                                          allows,
                                          nothing,
                                          allows,
                                          stopped,
                                          before_request,
                                          after_read,
                                          after_queue,
                                          nothing,
                                          before_apply};

bool other_channel_runs() {
  return is_any_slave_channel_running(CHANNEL_RECEIVER_THREAD | CHANNEL_APPLIER_THREAD);
}
