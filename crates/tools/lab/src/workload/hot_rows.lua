-- Transactions that meet on few rows, as a script for sysbench 1.0.
--
--   sysbench hot_rows.lua --rows=1000 prepare   makes and fills the tables
--   sysbench hot_rows.lua --rows=1000 run       one event is one transaction
--   sysbench hot_rows.lua check                 fails if an update was lost
--   sysbench hot_rows.lua cleanup               drops the tables
--
-- A transaction adds one to the counter of a random row and writes down that it did. So the
-- counters are equal to what is written down, unless an update was lost or half of a transaction
-- was kept.

if sysbench.cmdline.command == nil then
   error("name a command: prepare, run, check or cleanup")
end

sysbench.cmdline.options = {
   rows = {"Number of hot rows", 1000}
}

local con

local function prepare()
   local connection = sysbench.sql.driver():connect()
   connection:query("CREATE TABLE hot_rows (id INT NOT NULL PRIMARY KEY, " ..
      "counter BIGINT NOT NULL) ENGINE = InnoDB")
   connection:query("CREATE TABLE hot_rows_done (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, " ..
      "hot_row INT NOT NULL) ENGINE = InnoDB")
   connection:bulk_insert_init("INSERT INTO hot_rows VALUES")
   for id = 1, sysbench.opt.rows do
      connection:bulk_insert_next(string.format("(%d,0)", id))
   end
   connection:bulk_insert_done()
end

local function cleanup()
   local connection = sysbench.sql.driver():connect()
   connection:query("DROP TABLE IF EXISTS hot_rows")
   connection:query("DROP TABLE IF EXISTS hot_rows_done")
end

local function check()
   local connection = sysbench.sql.driver():connect()
   local wrong = tonumber((connection:query_row(
      "SELECT COUNT(*) FROM hot_rows LEFT JOIN (SELECT hot_row, COUNT(*) AS done " ..
      "FROM hot_rows_done GROUP BY hot_row) d ON hot_row=id " ..
      "WHERE counter <> COALESCE(done, 0)")))
   if wrong > 0 then
      error(string.format("%d hot rows have lost updates, or have kept half a transaction", wrong))
   end
   print("no update was lost")
end

sysbench.cmdline.commands = {
   prepare = {prepare},
   check = {check},
   cleanup = {cleanup}
}

function thread_init()
   con = sysbench.sql.driver():connect()
end

function thread_done()
   con:disconnect()
end

function event()
   local row = sysbench.rand.uniform(1, sysbench.opt.rows)
   con:query("BEGIN")
   con:query("UPDATE hot_rows SET counter=counter+1 WHERE id=" .. row)
   con:query("INSERT INTO hot_rows_done (hot_row) VALUES (" .. row .. ")")
   con:query("COMMIT")
end

-- A refused transaction leaves nothing: the next BEGIN would commit what is open.
sysbench.hooks.before_restart_event = function()
   con:query("ROLLBACK")
end
