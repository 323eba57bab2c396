package local

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

const (
	gigabyte = int64(1_000_000_000)
	// nonceMacro holds this start's nonce, so that a query can tell whose engine answers.
	nonceMacro = "idlewatt_start"
	// minEngineVersion is the version of the library package.json pins; an older one is not supported.
	minEngineVersion = "26.7"

	startSQL = "SYSTEM START LISTEN TCP;\nSYSTEM START LISTEN HTTP;\n"
)

// defaultServerMemory is 60 % of the usable memory, between 2 and 256 GB.
func defaultServerMemory() int64 {
	return min(max(usableMemory()/10*6, 2*gigabyte), 256*gigabyte)
}

// engineConfig is what the engine's configuration files are made from.
type engineConfig struct {
	Layout                         Layout
	Nonce                          string
	OwnerPassword, AnalystPassword string
	MaxServerMemory                int64
}

// write makes config.xml, users.xml and start.sql under DIR/clickhouse.
func (c engineConfig) write() error {
	files := []struct {
		name string
		tmpl *template.Template
	}{{"config.xml", template.Must(template.New("").Funcs(xmlFuncs()).Parse(configXML))},
		{"users.xml", template.Must(template.New("").Funcs(xmlFuncs()).Parse(usersXML))}}
	for _, file := range files {
		var out strings.Builder
		if err := file.tmpl.Execute(&out, c); err != nil {
			return fmt.Errorf("writing the engine's %s: %w", file.name, err)
		}
		if err := writeFile(c.path(file.name), []byte(out.String())); err != nil {
			return err
		}
	}
	return writeFile(c.path("start.sql"), []byte(startSQL))
}

func (c engineConfig) path(name string) string { return filepath.Join(c.Layout.ClickHouse(), name) }

// UsersFile, LogFile and the following are for the templates.
func (c engineConfig) UsersFile() string { return c.path("users.xml") }

// LogFile is the engine's own log.
func (c engineConfig) LogFile() string { return filepath.Join(c.Layout.Log(), "clickhouse.log") }

// Macro is the name of the nonce's macro.
func (c engineConfig) Macro() string { return nonceMacro }

// AnalystMemory lets an analyst's query take half of what the engine has.
func (c engineConfig) AnalystMemory() int64 { return c.MaxServerMemory / 2 }

// Settings lists the pinned settings in a fixed order.
func (c engineConfig) Settings() []struct{ Name, Value string } {
	pinned := engineSettings(minEngineVersion)
	var list []struct{ Name, Value string }
	for _, name := range slices.Sorted(maps.Keys(pinned)) {
		list = append(list, struct{ Name, Value string }{name, fmt.Sprint(pinned[name])})
	}
	return list
}

func xmlFuncs() template.FuncMap {
	return template.FuncMap{
		"text": func(s string) (string, error) {
			var out strings.Builder
			err := xml.EscapeText(&out, []byte(s))
			return out.String(), err
		},
		"sha256": func(s string) string {
			sum := sha256.Sum256([]byte(s))
			return hex.EncodeToString(sum[:])
		},
	}
}

const configXML = `<clickhouse>
  <!-- Written at every start: changes are lost. -->
  <logger>
    <log>{{text .LogFile}}</log>
    <size>10M</size>
    <count>3</count>
  </logger>
  <users_config>{{text .UsersFile}}</users_config>
  <user_directories><users_xml><path>{{text .UsersFile}}</path></users_xml></user_directories>
  <user_files_path>{{text .Layout.Archive}}</user_files_path>
  <macros><{{.Macro}}>{{.Nonce}}</{{.Macro}}></macros>
  <max_server_memory_usage>{{.MaxServerMemory}}</max_server_memory_usage>
  <access_control_improvements>
    <select_from_system_db_requires_grant>true</select_from_system_db_requires_grant>
    <!-- Business tools ask information_schema; what it shows is filtered by rights. -->
    <select_from_information_schema_requires_grant>false</select_from_information_schema_requires_grant>
    <settings_constraints_replace_previous>true</settings_constraints_replace_previous>
  </access_control_improvements>
</clickhouse>
`

const usersXML = `<clickhouse>
  <!-- Written at every start: changes are lost. -->
  <profiles>
    <!-- What is in "default" reaches every user, so it stays empty. -->
    <default/>
    <startup>
      <max_threads>1</max_threads>
      <max_memory_usage>50000000</max_memory_usage>
      <max_execution_time>10</max_execution_time>
      <constraints>
        <max_threads><max>1</max></max_threads>
        <max_memory_usage><min>1</min><max>50000000</max></max_memory_usage>
        <max_execution_time><readonly/></max_execution_time>
      </constraints>
    </startup>
    <owner>{{range .Settings}}
      <{{.Name}}>{{text .Value}}</{{.Name}}>{{end}}
    </owner>
    <analyst>
      <readonly>2</readonly>
      <session_timezone>UTC</session_timezone>
      <implicit_select>0</implicit_select>
      <max_memory_usage>{{.AnalystMemory}}</max_memory_usage>
      <max_memory_usage_for_user>{{.AnalystMemory}}</max_memory_usage_for_user>
      <max_execution_time>300</max_execution_time>
      <!-- Only the time that has passed counts, no estimate. -->
      <timeout_before_checking_execution_speed>0</timeout_before_checking_execution_speed>
      <constraints>
        <max_memory_usage><min>1</min><max>{{.AnalystMemory}}</max></max_memory_usage>
        <max_execution_time><min>1</min><max>3600</max></max_execution_time>
        <max_memory_usage_for_user><readonly/></max_memory_usage_for_user>
      </constraints>
    </analyst>
  </profiles>
  <quotas>
    <unlimited/>
    <startup>
      <interval><duration>3600</duration><queries>20</queries><read_rows>1000</read_rows></interval>
    </startup>
  </quotas>
  <users>
    <default>
      <no_password/>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>startup</profile>
      <quota>startup</quota>
      <grants><query>GRANT SYSTEM LISTEN ON *.*</query></grants>
    </default>
    <idlewatt>
      <password_sha256_hex>{{sha256 .OwnerPassword}}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>owner</profile>
      <quota>unlimited</quota>
      <grants><query>GRANT ALL ON *.* WITH GRANT OPTION</query></grants>
    </idlewatt>
    <analyst>
      <password_sha256_hex>{{sha256 .AnalystPassword}}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>analyst</profile>
      <quota>unlimited</quota>
      <grants>
        <query>GRANT SELECT, SHOW ON idlewatt.*</query>
        <query>GRANT SELECT ON system.parts</query>
      </grants>
    </analyst>
  </users>
</clickhouse>
`
