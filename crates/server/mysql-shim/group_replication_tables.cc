/* Tables of performance_schema that MySQL's Group Replication brings along, beside those of the
   server that ask it for their rows.

   SPDX-License-Identifier: GPL-2.0-only */
#include <mysql/components/services/pfs_plugin_table_service.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "synod_mysql.h"

namespace {

enum class Type { TEXT, LONG_TEXT, TINY, BIG };
struct Value {
  Type type;
  std::string text;
  unsigned long number;
};
using Row = std::vector<Value>;

Value text(const std::string &text) { return {Type::TEXT, text, 0}; }
Value long_text(const std::string &text) { return {Type::LONG_TEXT, text, 0}; }
Value tiny(unsigned long number) { return {Type::TINY, "", number}; }
Value big(unsigned long number) { return {Type::BIG, "", number}; }

/* What happens at a new writer, which nobody can change. */
std::vector<Row> member_actions() {
  const auto row = [](const char *name, bool enabled, unsigned long priority,
                      const char *handling) {
    return Row{text(name),       text("AFTER_PRIMARY_ELECTION"), tiny(enabled), text("INTERNAL"),
               tiny(priority), text(handling)};
  };
  return {row("mysql_disable_super_read_only_if_primary", true, 1, "IGNORE"),
          row("mysql_start_failover_channels_if_primary", false, 10, "CRITICAL")};
}

std::vector<Row> configuration_version() {
  return {{text("replication_group_member_actions"), big(1)}};
}

/* The writer leads, and there is no limit of messages on their way. No row without a group. */
std::vector<Row> communication_information() {
  const Members members;
  const auto writer = std::find_if(members.begin(), members.end(),
                                   [](const synod_member &member) { return member.is_writer; });
  if (members.size() == 0) return {};
  const std::string leader = writer == members.end() ? "" : writer->server;
  return {{big(0), long_text(COMMUNICATION_PROTOCOL), long_text(leader), long_text(leader),
           tiny(1), long_text("{}")}};
}

struct Table {
  const char *name, *columns;
  std::vector<Row> (*rows)();
};
const Table tables[] = {
    {"replication_group_member_actions",
     "name CHAR(255) CHARACTER SET ascii NOT NULL, event CHAR(64) CHARACTER SET ascii NOT NULL, "
     "enabled BOOLEAN NOT NULL, type CHAR(64) CHARACTER SET ascii NOT NULL, "
     "priority TINYINT UNSIGNED NOT NULL, error_handling CHAR(64) CHARACTER SET ascii NOT NULL",
     member_actions},
    {"replication_group_configuration_version",
     "name CHAR(255) CHARACTER SET ascii NOT NULL, version BIGINT UNSIGNED NOT NULL",
     configuration_version},
    {"replication_group_communication_information",
     "WRITE_CONCURRENCY BIGINT UNSIGNED NOT NULL, PROTOCOL_VERSION LONGTEXT NOT NULL, "
     "WRITE_CONSENSUS_LEADERS_PREFERRED LONGTEXT NOT NULL, "
     "WRITE_CONSENSUS_LEADERS_ACTUAL LONGTEXT NOT NULL, "
     "WRITE_CONSENSUS_SINGLE_LEADER_CAPABLE BOOLEAN NOT NULL, "
     "MEMBER_FAILURE_SUSPICIONS_COUNT LONGTEXT NOT NULL",
     communication_information}};
constexpr size_t COUNT = sizeof tables / sizeof *tables;

/* One reading of a table: its rows as they were when it began. The server keeps copies of `at`. */
struct Reading {
  std::vector<Row> rows;
  unsigned int at = 0, next = 0;
};

Reading &of(PSI_table_handle *handle) { return *reinterpret_cast<Reading *>(handle); }

template <size_t table>
PSI_table_handle *open(PSI_pos **at) {
  auto *reading = new Reading{tables[table].rows()};
  *at = reinterpret_cast<PSI_pos *>(&reading->at);
  return reinterpret_cast<PSI_table_handle *>(reading);
}

template <size_t table>
unsigned long long count() {
  return tables[table].rows().size();
}

void close(PSI_table_handle *handle) { delete &of(handle); }

void reset(PSI_table_handle *handle) { of(handle).at = of(handle).next = 0; }

int begin(PSI_table_handle *, bool) { return 0; }

int at_row(PSI_table_handle *handle) {
  return of(handle).at < of(handle).rows.size() ? 0 : PFS_HA_ERR_END_OF_FILE;
}

int next(PSI_table_handle *handle) {
  Reading &reading = of(handle);
  reading.at = reading.next;
  const int end = at_row(handle);
  if (end == 0) reading.next++;
  return end;
}

int read(PSI_table_handle *handle, PSI_field *field, unsigned int column) {
  const Value &value = of(handle).rows[of(handle).at][column];
  const auto length = static_cast<unsigned int>(value.text.size());
  switch (value.type) {
    case Type::TEXT: {
      Use<SERVICE_TYPE(pfs_plugin_column_string_v2)> to("pfs_plugin_column_string_v2");
      if (to) to->set_char_utf8mb4(field, value.text.data(), length);
      return !to;
    }
    case Type::LONG_TEXT: {
      Use<SERVICE_TYPE(pfs_plugin_column_text_v1)> to("pfs_plugin_column_text_v1");
      if (to) to->set(field, value.text.data(), length);
      return !to;
    }
    case Type::TINY: {
      Use<SERVICE_TYPE(pfs_plugin_column_tiny_v1)> to("pfs_plugin_column_tiny_v1");
      if (to) to->set_unsigned(field, {value.number, false});
      return !to;
    }
    case Type::BIG: {
      Use<SERVICE_TYPE(pfs_plugin_column_bigint_v1)> to("pfs_plugin_column_bigint_v1");
      if (to) to->set_unsigned(field, {value.number, false});
      return !to;
    }
  }
  return 1;
}

template <size_t table>
PFS_engine_table_share_proxy share() {
  PFS_engine_table_share_proxy share{};
  share.m_proxy_engine_table.rnd_next = next;
  share.m_proxy_engine_table.rnd_init = begin;
  share.m_proxy_engine_table.rnd_pos = at_row;
  share.m_proxy_engine_table.read_column_value = read;
  share.m_proxy_engine_table.reset_position = reset;
  share.m_proxy_engine_table.open_table = open<table>;
  share.m_proxy_engine_table.close_table = close;
  share.m_table_name = tables[table].name;
  share.m_table_name_length = static_cast<unsigned int>(strlen(tables[table].name));
  share.m_table_definition = tables[table].columns;
  share.m_ref_length = sizeof(Reading::at);
  share.m_acl = READONLY;
  share.get_row_count = count<table>;
  return share;
}

PFS_engine_table_share_proxy shares[COUNT] = {share<0>(), share<1>(), share<2>()};
PFS_engine_table_share_proxy *share_list[COUNT] = {&shares[0], &shares[1], &shares[2]};

}  // namespace

void register_tables() {
  Use<SERVICE_TYPE(pfs_plugin_table_v1)> service("pfs_plugin_table_v1");
  if (!service || service->add_tables(share_list, COUNT) != 0)
    say(MY_WARNING_LEVEL, "performance_schema does not take the tables of group_replication: they "
                          "are not there");
}

void unregister_tables() {
  Use<SERVICE_TYPE(pfs_plugin_table_v1)> service("pfs_plugin_table_v1");
  if (service) service->delete_tables(share_list, COUNT);
}
