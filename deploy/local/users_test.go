package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/idlewatt/idlewatt/deploy/local"
)

func TestUsersAreLockedDown(t *testing.T) {
	t.Parallel()
	e := start(t, local.Options{})
	for _, sql := range []string{
		"CREATE DATABASE idlewatt", "CREATE DATABASE idlewatt_store",
		"CREATE TABLE idlewatt_store.rows (x UInt32) ENGINE = MergeTree ORDER BY x",
		"INSERT INTO idlewatt_store.rows VALUES (7)",
		"CREATE VIEW idlewatt.charges DEFINER = idlewatt SQL SECURITY DEFINER AS SELECT x FROM idlewatt_store.rows",
		"CREATE TABLE idlewatt.plain (x UInt32) ENGINE = MergeTree ORDER BY x",
	} {
		asOwner(t, &e.Instance, sql)
	}
	users := map[string]string{"default": "", local.AnalystUser: e.AnalystPassword}
	for user, statements := range refusedStatements() {
		for _, sql := range statements {
			if answer, err := ask(timed(t), e.HTTPURL, user, users[user], sql); err == nil {
				t.Errorf("%s may %s: %q", user, sql, answer)
			} else if !refusal(err) {
				t.Errorf("%s is not refused %s but fails otherwise: %v", user, sql, err)
			}
		}
	}
	allowed := map[string]string{
		"SELECT x FROM idlewatt.charges":                                           "7",
		"SELECT name FROM system.tables ORDER BY name":                             "charges\nparts\nplain",
		"SELECT table_name FROM information_schema.tables ORDER BY 1":              "charges\nparts\nplain",
		"SELECT timezone(), currentUser()":                                         "UTC\tanalyst",
		"SELECT 1 SETTINGS max_threads = 1, output_format_json_quote_decimals = 1": "1",
		"SELECT 1 SETTINGS max_execution_time = 60":                                "1",
		"SHOW DATABASES": "idlewatt\nsystem",
	}
	for sql, want := range allowed {
		if got, err := ask(timed(t), e.HTTPURL, local.AnalystUser, e.AnalystPassword, sql); err != nil || got != want {
			t.Errorf("analyst, %s: got %q, %v, want %q", sql, got, err, want)
		}
	}
	for _, login := range [][2]string{{"idlewatt", ""}, {"analyst", ""}, {"analyst", e.Password}, {"nobody", ""}} {
		if _, err := ask(timed(t), e.HTTPURL, login[0], login[1], "SELECT 1"); err == nil {
			t.Errorf("user %s was let in with a wrong password", login[0])
		}
	}
}

// refusedStatements lists by user what must fail for want of rights.
func refusedStatements() map[string][]string {
	return map[string][]string{
		"default": {
			"SELECT x FROM idlewatt.charges", "SELECT x FROM idlewatt_store.rows", "SELECT * FROM system.users",
			"SELECT * FROM system.processes", "CREATE DATABASE d",
			"CREATE TABLE t (x UInt8) ENGINE = Memory", "SELECT * FROM file('/etc/passwd', LineAsString)",
			"SELECT * FROM url('http://127.0.0.1:1/', LineAsString)", "SYSTEM SHUTDOWN", "SYSTEM FLUSH LOGS",
		},
		local.AnalystUser: {
			"SELECT x FROM idlewatt_store.rows", "SELECT * FROM system.users", "SELECT * FROM system.processes",
			"SELECT * FROM file('/etc/passwd', LineAsString)",
			"SELECT * FROM file('x.csv', LineAsString)", "SELECT * FROM url('http://127.0.0.1:1/', LineAsString)",
			"SELECT * FROM s3('http://127.0.0.1:1/bucket/x', LineAsString)",
			"SELECT * FROM remote('127.0.0.1', system.one)", "SELECT * FROM executable('cat', LineAsString, 'x String')",
			"SELECT * FROM merge('idlewatt_store', '.*')",
			"INSERT INTO idlewatt.plain VALUES (1)", "INSERT INTO FUNCTION file('/tmp/x.csv', 'CSV', 'x UInt8') VALUES (1)",
			"CREATE TABLE idlewatt.mine (x UInt8) ENGINE = Memory", "DROP TABLE idlewatt.plain", "TRUNCATE TABLE idlewatt.plain",
			"ALTER TABLE idlewatt.plain DELETE WHERE 1", "CREATE TEMPORARY TABLE tmp (x UInt8)",
			"SYSTEM STOP LISTEN HTTP", "SYSTEM SHUTDOWN", "KILL QUERY WHERE 1", "SET readonly = 0", "GRANT SELECT ON *.* TO analyst",
			"SELECT 1 SETTINGS max_memory_usage = 0", "SELECT 1 SETTINGS max_memory_usage = 90000000000",
			"SELECT 1 SETTINGS max_execution_time = 0", "SELECT 1 SETTINGS readonly = 0",
			"BACKUP TABLE idlewatt.plain TO File('/tmp/b')",
		},
	}
}

// refusal tells whether an error is about rights or limits.
func refusal(err error) bool {
	for _, code := range []string{"ACCESS_DENIED", "READONLY", "SETTING_CONSTRAINT_VIOLATION", "QUOTA_EXCEEDED",
		"CANNOT_EXTRACT_TABLE_STRUCTURE"} { // merge() sees no table it could read
		if strings.Contains(err.Error(), code) {
			return true
		}
	}
	return false
}

func TestOwnerReadsTheArchiveWithFile(t *testing.T) {
	t.Parallel()
	e := start(t, local.Options{})
	path := filepath.Join(e.Layout.Archive(), "bill.csv")
	if err := os.WriteFile(path, []byte("a,b\n1,2\n3,4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, "bill.csv"} {
		if got := asOwner(t, &e.Instance, fmt.Sprintf("SELECT sum(b) FROM file('%s', CSVWithNames)", name)); got != "6" {
			t.Errorf("file('%s') gives %q, want 6", name, got)
		}
	}
}

func TestPinnedSettingsAreKnownAndInForce(t *testing.T) {
	t.Parallel()
	e := start(t, local.Options{})
	conn, err := clickhouse.Open(e.ClickHouseOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for name, want := range local.PinnedSettings(e.EngineVersion) {
		var native string
		if err := conn.QueryRow(timed(t), "SELECT value FROM system.settings WHERE name = ?", name).Scan(&native); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		web := asOwner(t, &e.Instance, "SELECT value FROM system.settings WHERE name = '"+name+"'")
		if native != fmt.Sprint(want) || web != fmt.Sprint(want) {
			t.Errorf("%s is %q natively and %q over HTTP, want %v", name, native, web, want)
		}
	}
	for name, want := range map[string]string{"max_memory_usage": "0", "max_execution_time": "0"} {
		if got := asOwner(t, &e.Instance, "SELECT value FROM system.settings WHERE name = '"+name+"'"); got != want {
			t.Errorf("the owner has %s = %s, want %s: the limits of the start-up user reach him", name, got, want)
		}
	}
	if got := asOwner(t, &e.Instance, "SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'"); got != fmt.Sprint(testMemory) {
		t.Errorf("the server may take %s bytes, want %d", got, testMemory)
	}
}

func TestEqualInsertsAreBothKept(t *testing.T) {
	t.Parallel()
	e := start(t, local.Options{})
	asOwner(t, &e.Instance, "CREATE TABLE twice (x UInt8) ENGINE = MergeTree ORDER BY x SETTINGS non_replicated_deduplication_window = 100")
	asOwner(t, &e.Instance, "INSERT INTO twice VALUES (1)")
	asOwner(t, &e.Instance, "INSERT INTO twice VALUES (1)")
	if got := asOwner(t, &e.Instance, "SELECT count() FROM twice"); got != "2" {
		t.Errorf("of two equal inserts %s is left", got)
	}
}
