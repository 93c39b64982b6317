-- TPC-C's nine tables, five transactions and consistency conditions as a script for sysbench 1.0.
--
--   sysbench tpcc.lua --warehouses=2 prepare    makes and fills the tables
--   sysbench tpcc.lua --warehouses=2 run        one event is one transaction
--   sysbench tpcc.lua --warehouses=2 check      fails unless the consistency conditions hold
--   sysbench tpcc.lua cleanup                   drops the tables
--
-- Written from "TPC Benchmark C, Standard Specification"; "clause" below is a clause of it. What
-- differs from the specification, so that figures may not be called tpmC:
--
-- * no terminals, no keying or think times: a client begins the next transaction at once;
-- * Delivery is executed at once and not queued;
-- * HISTORY has a primary key, because a table of a replicated group should;
-- * with --customers or --items below the specification's, tables are smaller (for tests).
--
-- All reads that a later write of the same transaction rests on are locking reads, and they come
-- first: then servers with snapshot isolation find conflicts there and not later.

if sysbench.cmdline.command == nil then
   error("name a command: prepare, run, check or cleanup")
end

sysbench.cmdline.options = {
   warehouses = {"Number of warehouses", 1},
   items = {"Items, and stock of each warehouse (specification: 100000)", 100000},
   customers = {"Customers, and first orders, of each district (specification: 3000)", 3000}
}

local DISTRICTS = 10

-- Constants of NURand (clause 2.1.6). The difference of the two constants for last names must be
-- in 65..119 and neither 96 nor 112 (clause 2.1.6.1): here it is 66.
local C_LAST_LOAD = 157
local C_LAST_RUN = 223
local C_ID = 259
local C_ITEM = 7911

local SYLLABLES = {
   "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"
}

local TABLES = {
   "warehouse", "district", "customer", "history", "new_order", "orders", "order_line", "item",
   "stock"
}

-- Random values -----------------------------------------------------------------------------------

local function random(low, high)
   return sysbench.rand.uniform(low, high)
end

local function nurand(a, low, high, constant)
   local mixed = bit.bor(random(0, a), random(low, high)) + constant
   return mixed % (high - low + 1) + low
end

local function last_name(number)
   local hundreds, tens = math.floor(number / 100) % 10, math.floor(number / 10) % 10
   return SYLLABLES[hundreds + 1] .. SYLLABLES[tens + 1] .. SYLLABLES[number % 10 + 1]
end

-- Last names that exist: number 0 to 999, fewer where there are fewer customers.
local function names()
   return math.min(sysbench.opt.customers, 1000)
end

local function random_last_name(constant)
   return last_name(nurand(255, 0, names() - 1, constant))
end

local function random_customer()
   return nurand(1023, 1, sysbench.opt.customers, C_ID)
end

local function random_item()
   return nurand(8191, 1, sysbench.opt.items, C_ITEM)
end

local LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

local function letters(low, high)
   local text = {}
   for at = 1, random(low, high) do
      local letter = random(1, #LETTERS)
      text[at] = LETTERS:sub(letter, letter)
   end
   return table.concat(text)
end

-- Long columns that no transaction reads are cut from one text: it is made once, not per row.
local filler

local function long_letters(low, high)
   if filler == nil then
      filler = letters(2000, 2000)
   end
   local length = random(low, high)
   local from = random(1, #filler - length)
   return filler:sub(from, from + length - 1)
end

local function digits(count)
   return sysbench.rand.string(string.rep("#", count))
end

local function zip()
   return digits(4) .. "11111"
end

-- I_DATA and S_DATA: in one of ten rows the text contains "ORIGINAL" (clause 4.3.3.1).
local function data()
   local text = long_letters(26, 50)
   if random(1, 10) > 1 then
      return text
   end
   local at = random(0, #text - 8)
   return text:sub(1, at) .. "ORIGINAL" .. text:sub(at + 9)
end

local function cents(low, high)
   return string.format("%.2f", random(low, high) / 100)
end

local function address()
   return string.format("'%s','%s','%s','%s','%s'", letters(10, 20), letters(10, 20),
      letters(10, 20), letters(2, 2), zip())
end

local function permutation(count)
   local order = {}
   for at = 1, count do
      order[at] = at
   end
   for at = count, 2, -1 do
      local other = random(1, at)
      order[at], order[other] = order[other], order[at]
   end
   return order
end

-- Tables ------------------------------------------------------------------------------------------

local ADDRESS_COLUMNS = [[
   %s_street_1 VARCHAR(20) NOT NULL, %s_street_2 VARCHAR(20) NOT NULL,
   %s_city VARCHAR(20) NOT NULL, %s_state CHAR(2) NOT NULL, %s_zip CHAR(9) NOT NULL,]]

local function address_columns(prefix)
   return (ADDRESS_COLUMNS:gsub("%%s", prefix))
end

local function dist_columns()
   local columns = {}
   for district = 1, DISTRICTS do
      columns[district] = string.format("s_dist_%02d CHAR(24) NOT NULL,", district)
   end
   return table.concat(columns, " ")
end

local function definitions()
   return {
      [[CREATE TABLE warehouse (
         w_id INT NOT NULL, w_name VARCHAR(10) NOT NULL,]] .. address_columns("w") .. [[
         w_tax DECIMAL(4,4) NOT NULL, w_ytd DECIMAL(12,2) NOT NULL,
         PRIMARY KEY (w_id))]],
      [[CREATE TABLE district (
         d_id INT NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10) NOT NULL,]]
         .. address_columns("d") .. [[
         d_tax DECIMAL(4,4) NOT NULL, d_ytd DECIMAL(12,2) NOT NULL, d_next_o_id INT NOT NULL,
         PRIMARY KEY (d_w_id, d_id))]],
      [[CREATE TABLE customer (
         c_id INT NOT NULL, c_d_id INT NOT NULL, c_w_id INT NOT NULL,
         c_first VARCHAR(16) NOT NULL, c_middle CHAR(2) NOT NULL, c_last VARCHAR(16) NOT NULL,]]
         .. address_columns("c") .. [[
         c_phone CHAR(16) NOT NULL, c_since DATETIME NOT NULL, c_credit CHAR(2) NOT NULL,
         c_credit_lim DECIMAL(12,2) NOT NULL, c_discount DECIMAL(4,4) NOT NULL,
         c_balance DECIMAL(12,2) NOT NULL, c_ytd_payment DECIMAL(12,2) NOT NULL,
         c_payment_cnt INT NOT NULL, c_delivery_cnt INT NOT NULL, c_data VARCHAR(500) NOT NULL,
         PRIMARY KEY (c_w_id, c_d_id, c_id),
         KEY by_name (c_w_id, c_d_id, c_last, c_first))]],
      [[CREATE TABLE history (
         h_id BIGINT NOT NULL AUTO_INCREMENT,
         h_c_id INT NOT NULL, h_c_d_id INT NOT NULL, h_c_w_id INT NOT NULL,
         h_d_id INT NOT NULL, h_w_id INT NOT NULL, h_date DATETIME NOT NULL,
         h_amount DECIMAL(6,2) NOT NULL, h_data VARCHAR(24) NOT NULL,
         PRIMARY KEY (h_id))]],
      [[CREATE TABLE new_order (
         no_o_id INT NOT NULL, no_d_id INT NOT NULL, no_w_id INT NOT NULL,
         PRIMARY KEY (no_w_id, no_d_id, no_o_id))]],
      [[CREATE TABLE orders (
         o_id INT NOT NULL, o_d_id INT NOT NULL, o_w_id INT NOT NULL, o_c_id INT NOT NULL,
         o_entry_d DATETIME NOT NULL, o_carrier_id INT, o_ol_cnt INT NOT NULL,
         o_all_local INT NOT NULL,
         PRIMARY KEY (o_w_id, o_d_id, o_id),
         KEY by_customer (o_w_id, o_d_id, o_c_id, o_id))]],
      [[CREATE TABLE order_line (
         ol_o_id INT NOT NULL, ol_d_id INT NOT NULL, ol_w_id INT NOT NULL, ol_number INT NOT NULL,
         ol_i_id INT NOT NULL, ol_supply_w_id INT NOT NULL, ol_delivery_d DATETIME,
         ol_quantity INT NOT NULL, ol_amount DECIMAL(6,2) NOT NULL, ol_dist_info CHAR(24) NOT NULL,
         PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))]],
      [[CREATE TABLE item (
         i_id INT NOT NULL, i_im_id INT NOT NULL, i_name VARCHAR(24) NOT NULL,
         i_price DECIMAL(5,2) NOT NULL, i_data VARCHAR(50) NOT NULL,
         PRIMARY KEY (i_id))]],
      [[CREATE TABLE stock (
         s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity INT NOT NULL,]]
         .. dist_columns() .. [[
         s_ytd INT NOT NULL, s_order_cnt INT NOT NULL, s_remote_cnt INT NOT NULL,
         s_data VARCHAR(50) NOT NULL,
         PRIMARY KEY (s_w_id, s_i_id))]]
   }
end

-- Rows (clause 4.3.3) -----------------------------------------------------------------------------

-- Inserts the rows that `row(number)` makes; none for a number where it returns nil.
local function fill(con, into, first, last, row)
   con:bulk_insert_init("INSERT INTO " .. into .. " VALUES")
   for number = first, last do
      local values = row(number)
      if values ~= nil then
         con:bulk_insert_next("(" .. values .. ")")
      end
   end
   con:bulk_insert_done()
end

local function fill_items(con)
   fill(con, "item", 1, sysbench.opt.items, function(item)
      return string.format("%d,%d,'%s',%s,'%s'", item, random(1, 10000), letters(14, 24),
         cents(100, 10000), data())
   end)
end

local function fill_stock(con, w)
   fill(con, "stock", 1, sysbench.opt.items, function(item)
      local dist = {}
      for district = 1, DISTRICTS do
         dist[district] = "'" .. long_letters(24, 24) .. "'"
      end
      return string.format("%d,%d,%d,%s,0,0,0,'%s'", item, w, random(10, 100),
         table.concat(dist, ","), data())
   end)
end

local function fill_customers(con, w, d)
   fill(con, "customer", 1, sysbench.opt.customers, function(c)
      local last = last_name(c - 1)
      if c > 1000 then
         last = random_last_name(C_LAST_LOAD)
      end
      local credit = random(1, 10) == 1 and "BC" or "GC"
      return string.format(
         "%d,%d,%d,'%s','OE','%s',%s,'%s',NOW(),'%s',50000,%.4f,-10,10,1,0,'%s'",
         c, d, w, letters(8, 16), last, address(), digits(16), credit,
         random(0, 5000) / 10000, long_letters(300, 500))
   end)
   local columns = "history (h_c_id,h_c_d_id,h_c_w_id,h_d_id,h_w_id,h_date,h_amount,h_data)"
   fill(con, columns, 1, sysbench.opt.customers, function(c)
      return string.format("%d,%d,%d,%d,%d,NOW(),10,'%s'", c, d, w, d, w, letters(12, 24))
   end)
end

-- The newest 900 of 3000 orders are not delivered yet.
local function fill_orders(con, w, d)
   local count = sysbench.opt.customers
   local delivered = math.floor(count * 0.7)
   local customers, lines = permutation(count), {}
   fill(con, "orders", 1, count, function(o)
      lines[o] = random(5, 15)
      local carrier = o <= delivered and tostring(random(1, 10)) or "NULL"
      return string.format("%d,%d,%d,%d,NOW(),%s,%d,1", o, d, w, customers[o], carrier, lines[o])
   end)
   fill(con, "new_order", delivered + 1, count, function(o)
      return string.format("%d,%d,%d", o, d, w)
   end)
   -- At most 15 lines an order: the number of a line is 15 times its order's, and its own.
   fill(con, "order_line", 15, count * 15 + 14, function(at)
      local o, line = math.floor(at / 15), at % 15 + 1
      if line > lines[o] then
         return nil
      end
      local is_delivered = o <= delivered
      return string.format("%d,%d,%d,%d,%d,%d,%s,5,%s,'%s'", o, d, w, line,
         random(1, sysbench.opt.items), w, is_delivered and "NOW()" or "NULL",
         is_delivered and "0" or cents(1, 999999), long_letters(24, 24))
   end)
end

local function fill_warehouse(con, w)
   local ytd = 10 * sysbench.opt.customers
   fill(con, "warehouse", w, w, function()
      return string.format("%d,'%s',%s,%.4f,%d", w, letters(6, 10), address(),
         random(0, 2000) / 10000, ytd * DISTRICTS)
   end)
   fill(con, "district", 1, DISTRICTS, function(d)
      return string.format("%d,%d,'%s',%s,%.4f,%d,%d", d, w, letters(6, 10), address(),
         random(0, 2000) / 10000, ytd, sysbench.opt.customers + 1)
   end)
   fill_stock(con, w)
   for d = 1, DISTRICTS do
      fill_customers(con, w, d)
      fill_orders(con, w, d)
   end
end

local function prepare()
   local con = sysbench.sql.driver():connect()
   print(string.format("Filling %d warehouses ...", sysbench.opt.warehouses))
   for _, definition in ipairs(definitions()) do
      con:query(definition .. " ENGINE = InnoDB")
   end
   fill_items(con)
   for w = 1, sysbench.opt.warehouses do
      fill_warehouse(con, w)
   end
end

local function cleanup()
   local con = sysbench.sql.driver():connect()
   for _, name in ipairs(TABLES) do
      con:query("DROP TABLE IF EXISTS " .. name)
   end
end

-- Transactions (clause 2) -------------------------------------------------------------------------

local con
local home

local function execute(statement, ...)
   return con:query(string.format(statement, ...))
end

-- The first row's columns, as texts; nothing if there is no row.
local function row_of(statement, ...)
   return con:query_row(string.format(statement, ...))
end

local function other_warehouse()
   local other = random(1, sysbench.opt.warehouses - 1)
   return other < home and other or other + 1
end

-- What a line of an order asks for (clause 2.4.1.5). `is_wrong`: an item that does not exist.
local function random_line(is_wrong)
   local supplier = home
   if sysbench.opt.warehouses > 1 and random(1, 100) == 1 then
      supplier = other_warehouse()
   end
   return {
      item = is_wrong and sysbench.opt.items + 1 or random_item(),
      supplier = supplier,
      quantity = random(1, 10)
   }
end

local function order_line(o, d, number, line, price)
   local quantity, dist = row_of(
      "SELECT s_quantity, s_dist_%02d, s_data FROM stock WHERE s_w_id=%d AND s_i_id=%d FOR UPDATE",
      d, line.supplier, line.item)
   quantity = tonumber(quantity) - line.quantity
   if quantity < 10 then
      quantity = quantity + 91
   end
   execute("UPDATE stock SET s_quantity=%d, s_ytd=s_ytd+%d, s_order_cnt=s_order_cnt+1, " ..
      "s_remote_cnt=s_remote_cnt+%d WHERE s_w_id=%d AND s_i_id=%d",
      quantity, line.quantity, line.supplier == home and 0 or 1, line.supplier, line.item)
   execute("INSERT INTO order_line VALUES (%d,%d,%d,%d,%d,%d,NULL,%d,%.2f,'%s')",
      o, d, home, number, line.item, line.supplier, line.quantity, line.quantity * price, dist)
end

-- Clause 2.4. One of a hundred orders names an item that does not exist, and is rolled back.
local function new_order()
   local d, c = random(1, DISTRICTS), random_customer()
   local is_wrong = random(1, 100) == 1
   local lines, all_local = {}, 1
   for number = 1, random(5, 15) do
      lines[number] = random_line(false)
   end
   if is_wrong then
      lines[#lines] = random_line(true)
   end
   for _, line in ipairs(lines) do
      if line.supplier ~= home then
         all_local = 0
      end
   end
   execute("BEGIN")
   local o = row_of("SELECT d_next_o_id, d_tax FROM district WHERE d_w_id=%d AND d_id=%d FOR UPDATE",
      home, d)
   execute("UPDATE district SET d_next_o_id=d_next_o_id+1 WHERE d_w_id=%d AND d_id=%d", home, d)
   row_of("SELECT c_discount, c_last, c_credit, w_tax FROM customer JOIN warehouse " ..
      "ON w_id=c_w_id WHERE c_w_id=%d AND c_d_id=%d AND c_id=%d", home, d, c)
   execute("INSERT INTO orders VALUES (%d,%d,%d,%d,NOW(),NULL,%d,%d)",
      o, d, home, c, #lines, all_local)
   execute("INSERT INTO new_order VALUES (%d,%d,%d)", o, d, home)
   for number, line in ipairs(lines) do
      local price = row_of("SELECT i_price, i_name, i_data FROM item WHERE i_id=%d", line.item)
      if price == nil then
         execute("ROLLBACK")
         return
      end
      order_line(o, d, number, line, tonumber(price))
   end
   execute("COMMIT")
end

-- The customer of Payment and Order-Status: 60 of 100 by last name, of several the one in the
-- middle by first name (clauses 2.5.1.2 and 2.5.2.2).
local function choose_customer(w, d)
   if random(1, 100) > 60 then
      return random_customer()
   end
   local result = execute("SELECT c_id FROM customer WHERE c_w_id=%d AND c_d_id=%d AND " ..
      "c_last='%s' ORDER BY c_first", w, d, random_last_name(C_LAST_RUN))
   local middle, found = math.ceil(result.nrows / 2), nil
   for at = 1, middle do
      found = unpack(result:fetch_row(), 1, result.nfields)
   end
   return tonumber(found)
end

local function name_of_warehouse(d, amount)
   execute("UPDATE warehouse SET w_ytd=w_ytd+%s WHERE w_id=%d", amount, home)
   execute("UPDATE district SET d_ytd=d_ytd+%s WHERE d_w_id=%d AND d_id=%d", amount, home, d)
   local warehouse = row_of("SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip " ..
      "FROM warehouse WHERE w_id=%d", home)
   local district = row_of("SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip " ..
      "FROM district WHERE d_w_id=%d AND d_id=%d", home, d)
   return warehouse .. "    " .. district
end

-- Clause 2.5.
local function payment()
   local d, amount = random(1, DISTRICTS), cents(100, 500000)
   local c_w, c_d = home, d
   if sysbench.opt.warehouses > 1 and random(1, 100) > 85 then
      c_w, c_d = other_warehouse(), random(1, DISTRICTS)
   end
   execute("BEGIN")
   local names_data = name_of_warehouse(d, amount)
   local c = choose_customer(c_w, c_d)
   local customer = string.format("c_w_id=%d AND c_d_id=%d AND c_id=%d", c_w, c_d, c)
   local credit = row_of("SELECT c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, " ..
      "c_city, c_state, c_zip, c_phone, c_since, c_credit_lim, c_discount, c_balance " ..
      "FROM customer WHERE %s FOR UPDATE", customer)
   local note = ""
   if credit == "BC" then
      note = string.format(", c_data=LEFT(CONCAT('%d %d %d %d %d %s ', c_data), 500)",
         c, c_d, c_w, d, home, amount)
   end
   execute("UPDATE customer SET c_balance=c_balance-%s, c_ytd_payment=c_ytd_payment+%s, " ..
      "c_payment_cnt=c_payment_cnt+1%s WHERE %s", amount, amount, note, customer)
   execute("INSERT INTO history (h_c_id,h_c_d_id,h_c_w_id,h_d_id,h_w_id,h_date,h_amount,h_data) " ..
      "VALUES (%d,%d,%d,%d,%d,NOW(),%s,'%s')", c, c_d, c_w, d, home, amount, names_data)
   execute("COMMIT")
end

-- Clause 2.6.
local function order_status()
   local d = random(1, DISTRICTS)
   execute("BEGIN")
   local c = choose_customer(home, d)
   row_of("SELECT c_balance, c_first, c_middle, c_last FROM customer " ..
      "WHERE c_w_id=%d AND c_d_id=%d AND c_id=%d", home, d, c)
   local o = row_of("SELECT o_id, o_carrier_id, o_entry_d FROM orders " ..
      "WHERE o_w_id=%d AND o_d_id=%d AND o_c_id=%d ORDER BY o_id DESC LIMIT 1", home, d, c)
   if o ~= nil then
      execute("SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d " ..
         "FROM order_line WHERE ol_w_id=%d AND ol_d_id=%d AND ol_o_id=%d", home, d, o)
   end
   execute("COMMIT")
end

local function deliver_oldest(d, carrier)
   local o = row_of("SELECT no_o_id FROM new_order WHERE no_w_id=%d AND no_d_id=%d " ..
      "ORDER BY no_o_id LIMIT 1 FOR UPDATE", home, d)
   if o == nil then
      return
   end
   execute("DELETE FROM new_order WHERE no_w_id=%d AND no_d_id=%d AND no_o_id=%d", home, d, o)
   local order = string.format("o_w_id=%d AND o_d_id=%d AND o_id=%d", home, d, o)
   local c = row_of("SELECT o_c_id FROM orders WHERE %s FOR UPDATE", order)
   execute("UPDATE orders SET o_carrier_id=%d WHERE %s", carrier, order)
   local lines = string.format("ol_w_id=%d AND ol_d_id=%d AND ol_o_id=%d", home, d, o)
   execute("UPDATE order_line SET ol_delivery_d=NOW() WHERE %s", lines)
   local amount = row_of("SELECT SUM(ol_amount) FROM order_line WHERE %s FOR UPDATE", lines)
   execute("UPDATE customer SET c_balance=c_balance+%s, c_delivery_cnt=c_delivery_cnt+1 " ..
      "WHERE c_w_id=%d AND c_d_id=%d AND c_id=%d", amount, home, d, c)
end

-- Clause 2.7: the oldest order of each district.
local function delivery()
   local carrier = random(1, 10)
   execute("BEGIN")
   for d = 1, DISTRICTS do
      deliver_oldest(d, carrier)
   end
   execute("COMMIT")
end

-- Clause 2.8: how many of the items in the last 20 orders are scarce.
local function stock_level()
   local d = sysbench.tid % DISTRICTS + 1
   execute("BEGIN")
   local next_order = row_of("SELECT d_next_o_id FROM district WHERE d_w_id=%d AND d_id=%d",
      home, d)
   row_of("SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock " ..
      "ON s_w_id=ol_w_id AND s_i_id=ol_i_id WHERE ol_w_id=%d AND ol_d_id=%d " ..
      "AND ol_o_id<%d AND ol_o_id>=%d AND s_quantity<%d",
      home, d, next_order, next_order - 20, random(10, 20))
   execute("COMMIT")
end

function thread_init()
   con = sysbench.sql.driver():connect()
   home = sysbench.tid % sysbench.opt.warehouses + 1
end

function thread_done()
   con:disconnect()
end

-- The mix (clause 5.2.3).
function event()
   local share = random(1, 100)
   if share <= 45 then
      new_order()
   elseif share <= 88 then
      payment()
   elseif share <= 92 then
      order_status()
   elseif share <= 96 then
      delivery()
   else
      stock_level()
   end
end

-- A refused transaction leaves nothing: the next BEGIN would commit what is open.
sysbench.hooks.before_restart_event = function()
   con:query("ROLLBACK")
end

-- Consistency conditions (clause 3.3.2) -----------------------------------------------------------

-- Each statement counts the violations of one condition. Condition 11 holds only before the first
-- run (clause 3.3.2.11).
local CONDITIONS = {
   {1, "W_YTD is the sum of D_YTD", [[
      SELECT COUNT(*) FROM warehouse WHERE w_ytd <>
         (SELECT SUM(d_ytd) FROM district WHERE d_w_id=w_id)]]},
   {2, "D_NEXT_O_ID follows the greatest O_ID and NO_O_ID", [[
      SELECT COUNT(*) FROM district
      LEFT JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS top FROM orders GROUP BY o_w_id, o_d_id) o
         ON o_w_id=d_w_id AND o_d_id=d_id
      LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS top FROM new_order
                 GROUP BY no_w_id, no_d_id) n
         ON no_w_id=d_w_id AND no_d_id=d_id
      WHERE COALESCE(o.top, 0) <> d_next_o_id-1 OR n.top <> d_next_o_id-1]]},
   {3, "NO_O_ID has no gaps", [[
      SELECT COUNT(*) FROM (SELECT 1 FROM new_order GROUP BY no_w_id, no_d_id
         HAVING MAX(no_o_id)-MIN(no_o_id)+1 <> COUNT(*)) g]]},
   {4, "the sum of O_OL_CNT is the number of order lines, by district", [[
      SELECT COUNT(*) FROM
         (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS n FROM orders GROUP BY o_w_id, o_d_id) o
      LEFT JOIN
         (SELECT ol_w_id, ol_d_id, COUNT(*) AS n FROM order_line GROUP BY ol_w_id, ol_d_id) l
         ON ol_w_id=o_w_id AND ol_d_id=o_d_id
      WHERE o.n <> COALESCE(l.n, 0)]]},
   {5, "an order has no carrier if, and only if, it is in NEW-ORDER", [[
      SELECT (SELECT COUNT(*) FROM orders LEFT JOIN new_order
                 ON no_w_id=o_w_id AND no_d_id=o_d_id AND no_o_id=o_id
              WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL))
           + (SELECT COUNT(*) FROM new_order LEFT JOIN orders
                 ON no_w_id=o_w_id AND no_d_id=o_d_id AND no_o_id=o_id
              WHERE o_id IS NULL)]]},
   {6, "O_OL_CNT is the number of order lines, by order", [[
      SELECT COUNT(*) FROM orders LEFT JOIN
         (SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS n FROM order_line
          GROUP BY ol_w_id, ol_d_id, ol_o_id) l
         ON ol_w_id=o_w_id AND ol_d_id=o_d_id AND ol_o_id=o_id
      WHERE o_ol_cnt <> COALESCE(n, 0)]]},
   {7, "a line has no delivery date if, and only if, its order has no carrier", [[
      SELECT COUNT(*) FROM order_line LEFT JOIN orders
         ON ol_w_id=o_w_id AND ol_d_id=o_d_id AND ol_o_id=o_id
      WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)]]},
   {8, "W_YTD is the sum of H_AMOUNT", [[
      SELECT COUNT(*) FROM warehouse WHERE w_ytd <>
         (SELECT COALESCE(SUM(h_amount), 0) FROM history WHERE h_w_id=w_id)]]},
   {9, "D_YTD is the sum of H_AMOUNT", [[
      SELECT COUNT(*) FROM district LEFT JOIN
         (SELECT h_w_id, h_d_id, SUM(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) h
         ON h_w_id=d_w_id AND h_d_id=d_id
      WHERE d_ytd <> COALESCE(paid, 0)]]},
   {10, "C_BALANCE is what was delivered less what was paid", [[
      SELECT COUNT(*) FROM customer
      LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS due FROM orders JOIN order_line
                    ON ol_w_id=o_w_id AND ol_d_id=o_d_id AND ol_o_id=o_id
                 WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) l
         ON o_w_id=c_w_id AND o_d_id=c_d_id AND o_c_id=c_id
      LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS paid FROM history
                 GROUP BY h_c_w_id, h_c_d_id, h_c_id) h
         ON h_c_w_id=c_w_id AND h_c_d_id=c_d_id AND h_c_id=c_id
      WHERE c_balance <> COALESCE(due, 0) - COALESCE(paid, 0)]]},
   {12, "C_BALANCE and C_YTD_PAYMENT add up to what was delivered", [[
      SELECT COUNT(*) FROM customer
      LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS due FROM orders JOIN order_line
                    ON ol_w_id=o_w_id AND ol_d_id=o_d_id AND ol_o_id=o_id
                 WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) l
         ON o_w_id=c_w_id AND o_d_id=c_d_id AND o_c_id=c_id
      WHERE c_balance + c_ytd_payment <> COALESCE(due, 0)]]}
}

local function check()
   local connection = sysbench.sql.driver():connect()
   local broken = 0
   for _, condition in ipairs(CONDITIONS) do
      local number, text, statement = unpack(condition)
      local violations = tonumber((connection:query_row(statement)))
      local verdict = violations == 0 and "holds" or (violations .. " violations")
      print(string.format("condition %d: %s: %s", number, text, verdict))
      broken = broken + (violations == 0 and 0 or 1)
   end
   if broken > 0 then
      error(string.format("%d consistency conditions of TPC-C do not hold", broken))
   end
   print("all consistency conditions hold")
end

sysbench.cmdline.commands = {
   prepare = {prepare},
   check = {check},
   cleanup = {cleanup}
}
