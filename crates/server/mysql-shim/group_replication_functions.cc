/* Functions that MySQL's Group Replication has. Those that mean something here work; the others are
   refused in words. docs/operating/mysql.md lists them.

   SPDX-License-Identifier: GPL-2.0-only */
#include <mysql/components/services/dynamic_privilege.h>
#include <mysql/components/services/mysql_current_thread_reader.h>
#include <mysql/components/services/security_context.h>
#include <mysql/components/services/udf_registration.h>
#include <mysql_version.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "my_inttypes.h"
#include "my_sys.h"
#include "synod_host.h"
#include "synod_mysql.h"

namespace {

/* ER_GRP_RPL_UDF_ERROR, of a header that the server's build generates. */
constexpr unsigned int FUNCTION_FAILED = 3910;
/* The newest that Group Replication has: tools that compare it with the servers' version find
   nothing to raise. Members of Synod agree on their own. */
constexpr unsigned long PROTOCOL = 80027;
constexpr long long TIMEOUT_MAX = 3600;

/* Whether the client may give orders to the group, as for the functions of MySQL's own; `who` is
   its account. */
bool may_order(std::string &who) {
  Use<SERVICE_TYPE(mysql_current_thread_reader)> reader("mysql_current_thread_reader");
  Use<SERVICE_TYPE(mysql_thd_security_context)> contexts("mysql_thd_security_context");
  Use<SERVICE_TYPE(mysql_security_context_options)> options("mysql_security_context_options");
  Use<SERVICE_TYPE(global_grants_check)> grants("global_grants_check");
  MYSQL_THD thd = nullptr;
  Security_context_handle context = nullptr;
  if (!reader || !contexts || !options || !grants || reader->get(&thd) ||
      contexts->get(thd, &context))
    return false;
  MYSQL_LEX_CSTRING user{}, host{};
  if (!options->get(context, "priv_user", &user) && !options->get(context, "priv_host", &host))
    who = "User '" + std::string(user.str, user.length) + "'@'" +
          std::string(host.str, host.length) + "'";
  const char *name = "GROUP_REPLICATION_ADMIN";
  my_svc_bool is_super = 0;
  return grants->has_global_grant(context, name, strlen(name)) ||
         (!options->get(context, "privilege_super", &is_super) && is_super);
}

bool is_online() {
  const Members members;
  return std::any_of(members.begin(), members.end(), [](const synod_member &member) {
    return member.is_self && strcmp(member.state, "ONLINE") == 0;
  });
}

/* ---- checks of a call, before its first row; true: refused */

bool wrong(char *error, const char *why) {
  snprintf(error, MYSQL_ERRMSG_SIZE, "%s", why);
  return true;
}

bool may_call(UDF_INIT *init, char *error) {
  init->maybe_null = false;
  std::string who = "The user";
  if (may_order(who)) return false;
  return wrong(error, (who + " needs SUPER or GROUP_REPLICATION_ADMIN privileges.").c_str());
}

bool takes_nothing(UDF_INIT *init, UDF_ARGS *args, char *error) {
  if (args->arg_count > 0) return wrong(error, "It takes no arguments.");
  return may_call(init, error);
}

bool takes_anything(UDF_INIT *init, UDF_ARGS *, char *error) { return may_call(init, error); }

/* What follows is answered by a server that is in its group. */
bool needs_group(UDF_INIT *init, char *error) {
  return may_call(init, error) ||
         (!is_online() && wrong(error, "Member must be ONLINE and in the majority partition."));
}

bool takes_nothing_in_group(UDF_INIT *init, UDF_ARGS *args, char *error) {
  return takes_nothing(init, args, error) || needs_group(init, error);
}

bool takes_server(UDF_INIT *init, UDF_ARGS *args, char *error) {
  if (args->arg_count > 2)
    return wrong(error, "Wrong arguments: UDF accepts maximum of 2 parameters.");
  if (args->arg_count == 0 || args->arg_type[0] != STRING_RESULT || args->lengths[0] == 0)
    return wrong(error, "Wrong arguments: You need to specify a server uuid.");
  if (args->arg_count == 2 && args->arg_type[1] != INT_RESULT)
    return wrong(error, "Wrong arguments: Second parameter `running_transactions_timeout` must be "
                        "type integer between 0 - 3600 (seconds).");
  return needs_group(init, error);
}

bool takes_server_or_nothing(UDF_INIT *init, UDF_ARGS *args, char *error) {
  if (args->arg_count > 1 || (args->arg_count == 1 && args->arg_type[0] != STRING_RESULT))
    return wrong(error, "Wrong arguments: This function either takes no arguments or a single "
                        "server uuid.");
  return needs_group(init, error);
}

bool takes_version(UDF_INIT *init, UDF_ARGS *args, char *error) {
  if (args->arg_count != 1 || args->arg_type[0] != STRING_RESULT || args->lengths[0] == 0)
    return wrong(error,
                 "UDF takes one version string argument with format major.minor.patch");
  return needs_group(init, error);
}

bool takes_action(UDF_INIT *init, UDF_ARGS *args, char *error) {
  if (args->arg_count != 2 || args->arg_type[0] != STRING_RESULT ||
      args->arg_type[1] != STRING_RESULT)
    return wrong(error, "It takes the name of an action and its event.");
  return may_call(init, error);
}

/* ---- calls */

std::string text_of(const UDF_ARGS *args, unsigned int at) {
  return args->args[at] == nullptr ? "" : std::string(args->args[at], args->lengths[at]);
}

char *answer(const std::string &text, char *result, unsigned long *length) {
  *length = std::min<unsigned long>(text.size(), 255);
  memcpy(result, text.data(), *length);
  return result;
}

char *fail(const char *function, const std::string &why, unsigned char *error) {
  my_error(FUNCTION_FAILED, 0, function, why.c_str());
  *error = 1;
  return nullptr;
}

char *set_as_primary(UDF_INIT *, UDF_ARGS *args, char *result, unsigned long *length,
                     unsigned char *, unsigned char *error) {
  const char *const name = "group_replication_set_as_primary";
  const std::string server = text_of(args, 0);
  if (args->arg_count == 2) {
    const auto *seconds = reinterpret_cast<const long long *>(args->args[1]);
    if (seconds == nullptr || *seconds < 0 || *seconds > TIMEOUT_MAX)
      return fail(name, "Valid range for running_transactions_timeout is 0 to 3600.", error);
  }
  const Members members;
  for (const synod_member &member : members) {
    if (member.is_writer && strcasecmp(member.server, server.c_str()) == 0)
      return answer("The requested member is already the current group primary.", result, length);
  }
  char why[512];
  if (synod_host_lead(server.c_str(), why, sizeof why) != 0) return fail(name, why, error);
  return answer("Primary server switched to: " + server, result, length);
}

char *switch_to_single_primary_mode(UDF_INIT *, UDF_ARGS *args, char *result,
                                    unsigned long *length, unsigned char *, unsigned char *) {
  return answer(args->arg_count == 0 ? "The group is already on single-primary mode."
                                     : "Already in single-primary mode. Did you mean to use "
                                       "group_replication_set_as_primary?",
                result, length);
}

char *switch_to_multi_primary_mode(UDF_INIT *, UDF_ARGS *, char *, unsigned long *,
                                   unsigned char *, unsigned char *error) {
  return fail("group_replication_switch_to_multi_primary_mode", ONE_WRITER, error);
}

char *get_communication_protocol(UDF_INIT *, UDF_ARGS *, char *result, unsigned long *length,
                                 unsigned char *, unsigned char *) {
  return answer(COMMUNICATION_PROTOCOL, result, length);
}

char *set_communication_protocol(UDF_INIT *, UDF_ARGS *args, char *result, unsigned long *length,
                                 unsigned char *, unsigned char *error) {
  const char *const name = "group_replication_set_communication_protocol";
  const std::string version = text_of(args, 0);
  unsigned int major = 0, minor = 0, patch = 0;
  int end = 0;
  const bool is_version =
      sscanf(version.c_str(), "%3u.%2u.%2u%n", &major, &minor, &patch, &end) == 3 &&
      static_cast<size_t>(end) == version.size();
  if (!is_version)
    return fail(name, "'" + version + "' is not version string argument with format "
                                      "major.minor.patch", error);
  const unsigned long number = (major * 100UL + minor) * 100 + patch;
  if (number < PROTOCOL || number > MYSQL_VERSION_ID)
    return fail(name, std::string("it is ") + COMMUNICATION_PROTOCOL + " here, and does not "
                "change: members of Synod agree on a protocol of their own, see 'synod protocol "
                "--help'", error);
  return answer("The operation group_replication_set_communication_protocol completed "
                "successfully", result, length);
}

/* A new writer takes writes, and nothing else is done by Synod: so it stays as it is. */
bool is_action_of_new_writers(const UDF_ARGS *args) {
  return text_of(args, 0) == "mysql_disable_super_read_only_if_primary" &&
         text_of(args, 1) == "AFTER_PRIMARY_ELECTION";
}
const char *const FIXED_ACTIONS =
    "a new writer of a group of Synod takes writes (mysql_disable_super_read_only_if_primary), and "
    "starts no channels: neither can be changed";

char *enable_member_action(UDF_INIT *, UDF_ARGS *args, char *result, unsigned long *length,
                           unsigned char *, unsigned char *error) {
  if (is_action_of_new_writers(args)) return answer("OK", result, length);
  return fail("group_replication_enable_member_action", FIXED_ACTIONS, error);
}

char *disable_member_action(UDF_INIT *, UDF_ARGS *, char *, unsigned long *, unsigned char *,
                            unsigned char *error) {
  return fail("group_replication_disable_member_action", FIXED_ACTIONS, error);
}

char *reset_member_actions(UDF_INIT *, UDF_ARGS *, char *result, unsigned long *length,
                           unsigned char *, unsigned char *) {
  return answer("OK", result, length);
}

const char *const NO_CONCURRENCY =
    "Group Replication's limit for messages on their way does not exist here: members of Synod "
    "send each other what there is";

char *set_write_concurrency(UDF_INIT *, UDF_ARGS *, char *, unsigned long *, unsigned char *,
                            unsigned char *error) {
  return fail("group_replication_set_write_concurrency", NO_CONCURRENCY, error);
}

char *get_write_concurrency(UDF_INIT *, UDF_ARGS *, char *, unsigned long *, unsigned char *,
                            unsigned char *error) {
  return fail("group_replication_get_write_concurrency", NO_CONCURRENCY, error);
}

const struct {
  const char *name;
  Udf_func_string call;
  Udf_func_init init;
} functions[] = {
    {"group_replication_set_as_primary", set_as_primary, takes_server},
    {"group_replication_switch_to_single_primary_mode", switch_to_single_primary_mode,
     takes_server_or_nothing},
    {"group_replication_switch_to_multi_primary_mode", switch_to_multi_primary_mode,
     takes_nothing_in_group},
    {"group_replication_get_communication_protocol", get_communication_protocol,
     takes_nothing_in_group},
    {"group_replication_set_communication_protocol", set_communication_protocol, takes_version},
    {"group_replication_enable_member_action", enable_member_action, takes_action},
    {"group_replication_disable_member_action", disable_member_action, takes_action},
    {"group_replication_reset_member_actions", reset_member_actions, takes_nothing},
    {"group_replication_set_write_concurrency", set_write_concurrency, takes_anything},
    {"group_replication_get_write_concurrency", get_write_concurrency, takes_anything},
};

}  // namespace

void register_functions() {
  Use<SERVICE_TYPE(udf_registration)> registration("udf_registration");
  for (const auto &function : functions) {
    if (!registration ||
        registration->udf_register(function.name, STRING_RESULT,
                                   reinterpret_cast<Udf_func_any>(function.call), function.init,
                                   nullptr))
      say(MY_WARNING_LEVEL, std::string("the function ") + function.name + " is not registered");
  }
}

void unregister_functions() {
  Use<SERVICE_TYPE(udf_registration)> registration("udf_registration");
  for (const auto &function : functions) {
    int was_present = 0;
    if (registration) registration->udf_unregister(function.name, &was_present);
  }
}
