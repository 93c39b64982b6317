/* Hooks of transactions: what clients commit goes to the host, which decides it.

   SPDX-License-Identifier: GPL-2.0-only */
#define MYSQL_SERVER 1
#include <my_inttypes.h>
#include <mysql/service_mysql_alloc.h>
#include <mysql/service_rpl_transaction_ctx.h>
#include <mysql/service_rpl_transaction_write_set.h>

#include <algorithm>
#include <cstring>

#include "my_sys.h"
#include "sql/binlog_ostream.h"
#include "sql/handler.h"
#include "sql/query_options.h"
#include "sql/replication.h"
#include "synod_mysql.h"

/* Exported by mysqld, without a header that plugins may include. */
extern "C" int thd_killed(const void *thd);
bool thd_in_active_multi_stmt_transaction(const THD *thd);
/* Waits until gtid_executed has these; a timeout of zero: for ever. True: not in time, or killed. */
bool wait_for_gtid_set_committed(const char *gtids, double seconds, bool update_thd_status);

Waits commit_waits, after_waits, before_waits;
std::atomic<unsigned long long> sent_bytes{0};

namespace {

using Clock = std::chrono::steady_clock;

/* ER_GRP_TRX_CONSISTENCY_NOT_ALLOWED and _BEFORE; the server's build generates their header. */
constexpr int ER_NOT_IN_GROUP = 3796, ER_WAITING_FAILED = 3797;
/* ER_TRANS_CACHE_FULL. */
constexpr int ER_TOO_LARGE = 1197;
/* Hooks of a statement and of its commit run on the client's thread. */
thread_local bool runs_alone = false;
/* When the transaction of this thread began: synod_host_opening() at its first statement. The
   server does not tell it in threads of its own, which begin none that has more than one. */
constexpr int64_t OWN_THREAD = -1;
thread_local int64_t began = OWN_THREAD;

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

/* After a refusal the server rolls a client's transaction back. In threads of its own, such as that
   of the event scheduler, it does so with a statement only (9.7.4): the thread would keep its row
   locks, and all that changes events would end with error 1205. */
void give_locks_up(Trans_param *param) {
  if (began == OWN_THREAD) ha_rollback_low(param->thd, true);
}

int refuse(Trans_param *param) {
  give_locks_up(param);
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
  if (!runs || param->gtid_info.type != 0 || param->gtid_info.automatic_tag.is_defined() ||
      param->rpl_channel_type != NO_CHANNEL_INFO)
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
  transaction.thread = param->thread_id;
  int64_t number = 0;
  pause_at("asking");
  const auto since = Clock::now();
  const int32_t decision = synod_host_commit(&transaction, &number);
  commit_waits.add(since);
  sent_bytes += transaction.bytes;
  if (transaction.waits_for_others) after_waits.add(since);
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
      give_locks_up(param);
      return 1;
  }
}

/* A row without a key cannot be found by others, and other engines cannot roll back. */
int before_dml(Trans_param *param, int &out) {
  out = 0;
  if (param->rpl_channel_type == GR_APPLIER_CHANNEL || is_outside) return 0;
  if (!param->trans_ctx_info.binlog_enabled) return 0;
  if (param->trans_ctx_info.binlog_format != BINLOG_FORMAT_ROW) {
    out = 1;
    say(MY_WARNING_LEVEL, "a write is refused: binlog_format of its session is not ROW, and a "
                          "statement may end otherwise on other servers");
  }
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

/* What of the group a transaction must see, by its group_replication_consistency. */
synod_position needed_by(ulong level) {
  switch (level) {
    case GROUP_REPLICATION_CONSISTENCY_BEFORE_ON_PRIMARY_FAILOVER:
      return SYNOD_NEW_WRITER;
    case GROUP_REPLICATION_CONSISTENCY_AFTER:
      return SYNOD_SYNCED;
    default:
      return SYNOD_LATEST;
  }
}

/* Why this server does not have what the transaction must see; 0: it has. */
int lacks(Trans_param *param) {
  const ulong level = param->group_replication_consistency;
  if (level == GROUP_REPLICATION_CONSISTENCY_EVENTUAL) return 0;
  const synod_position needed = needed_by(level);
  const auto seconds = static_cast<uint32_t>(std::min(param->hold_timeout, 31536000UL));
  int64_t number = 0;
  char why[sizeof start_problem];
  const auto since = Clock::now();
  const int32_t failed = synod_host_position(needed, seconds, param->thd, is_thread_killed, &number,
                                             why, sizeof why);
  if (failed != 0) {
    say(MY_WARNING_LEVEL, std::string("a transaction with group_replication_consistency is not "
                                      "begun: ") + why);
    return failed == 1 ? ER_WAITING_FAILED : ER_NOT_IN_GROUP;
  }
  if (number == 0) return 0;
  /* The state of the thread stays that of a hook at the beginning, which tools look for. */
  const std::string gtids = group_uuid() + ":1-" + std::to_string(number);
  const bool sees = !wait_for_gtid_set_committed(gtids.c_str(), seconds, false);
  if (needed == SYNOD_LATEST) before_waits.add(since);
  return sees ? 0 : ER_WAITING_FAILED;
}

int nothing(Trans_param *) { return 0; }
/* One thread calls it for all whose commits the binlog has gathered. */
int after_commit(Trans_param *param) {
  if (param->rpl_channel_type != NO_CHANNEL_INFO) return 0;
  pause_at("committed");
  synod_host_committed(param->thread_id);
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
  out = lacks(param);
  began = synod_host_opening();
  return 0;
}

}  // namespace

Trans_observer transaction_hooks = {sizeof(Trans_observer), before_dml, before_commit, nothing,
                               after_commit,           after_end,  begin};
