<?php
// Commits orders, each once, whatever happens to servers (docs/operating/client-errors.md).
//
//     export DB_USER=shop DB_PASSWORD=...
//     seq -f order-%g 1000 | php orders.php db1:3306,db2:3306,db3:3306
//
// Reads unique ids, and prints each when its order is committed. Tables: ../orders.sql.

ini_set('display_errors', 'stderr');

const ATTEMPTS = 300;
const DUPLICATE = 1062;
const REPEAT_HERE = [1213, 1020, 1205];
// Not here; then what leaves open whether the order is there: not appended, interrupted, killed;
// the server ends, is not reached, does not answer.
const REPEAT_ELSEWHERE = [1290, 1047, 1180, 1317, 1927, 1053, 2002, 2006, 2013];

class Shop
{
    private ?mysqli $db = null;
    private string $server;

    public function __construct(private array $servers)
    {
        $this->server = $servers[0];
    }

    public function take(string $order): void
    {
        for ($attempt = 0; $attempt < ATTEMPTS; $attempt++) {
            try {
                if ($this->db === null && $this->connect($order)) {
                    return; // An attempt elsewhere was committed.
                }
                $this->db->query('ROLLBACK');
                $this->sell($order);
                return;
            } catch (mysqli_sql_exception $error) {
                $code = $error->getCode();
                fwrite(STDERR, "$this->server: $order: $code {$error->getMessage()}\n");
                if ($code === DUPLICATE) {
                    return; // The same.
                }
                if (in_array($code, REPEAT_ELSEWHERE)) {
                    $this->leave($error->getMessage());
                } elseif (!in_array($code, REPEAT_HERE)) {
                    throw $error;
                }
            }
            usleep(random_int(0, 100_000));
        }
        throw new Exception("$order: not committed in " . ATTEMPTS . ' attempts');
    }

    /** Connects, and tells whether the order is there. */
    private function connect(string $order): bool
    {
        preg_match('/(.*):(\d+)/', $this->server, $address);
        [, $host, $port] = $address;
        [$user, $password] = [getenv('DB_USER'), getenv('DB_PASSWORD')];
        $db = mysqli_init();
        $db->options(MYSQLI_OPT_CONNECT_TIMEOUT, 2);
        $db->options(MYSQLI_OPT_READ_TIMEOUT, 10);
        $db->options(MYSQLI_INIT_COMMAND, 'SET wsrep_sync_wait = 1');
        $db->real_connect($host, $user, $password, 'shop', (int) $port);
        $found = $db->execute_query('SELECT COUNT(*) FROM orders WHERE id = ?', [$order]);
        $this->db = $db;
        return $found->fetch_row()[0] > 0;
    }

    private function sell(string $order): void
    {
        $this->db->query('START TRANSACTION');
        $piece = $this->db->query('SELECT pieces + 1 FROM sold WHERE item = 1')->fetch_row()[0];
        $this->db->execute_query('UPDATE sold SET pieces = ? WHERE item = 1', [$piece]);
        $this->db->execute_query('INSERT INTO orders (id, piece) VALUES (?, ?)', [$order, $piece]);
        $this->db->query('COMMIT');
    }

    /** Goes to the server that the error names, or to the next one. */
    private function leave(string $error): void
    {
        $this->db = null;
        $isNamed = preg_match("/Write to '.*' at (\\S+:\\d+)/", $error, $named);
        $at = array_search($this->server, $this->servers);
        $next = $at === false ? 0 : ($at + 1) % count($this->servers);
        $this->server = $isNamed ? $named[1] : $this->servers[$next];
    }
}

$shop = new Shop(explode(',', $argv[1]));
while (($line = fgets(STDIN)) !== false) {
    $shop->take(trim($line));
    echo trim($line), "\n";
}
