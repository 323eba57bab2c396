// Package local runs the two engines of idlewatt on this machine: NATS JetStream inside the process, and
// ClickHouse 26.7 from libchdb.so in a child process; or it hands out the external ones named by URL.
//
// What lives here: finding the library, the data directory and its lock, the instance file through which
// commands find a running instance, the engines' configuration, their supervision and their end. What does
// not: tables and views (schema), streams and consumers (schema and ingest), and any flag or environment
// variable except CHDB_LIB_PATH (cmd).
//
// # The library
//
// FindLibrary looks, in this order, at
//
//  1. the file or the directory named by CHDB_LIB_PATH (when set, nothing else is looked at),
//  2. libchdb.so beside the binary, and in ../lib from it,
//  3. ${XDG_DATA_HOME:-~/.local/share}/idlewatt/lib/libchdb.so, where setup.sh puts it,
//  4. deploy/local/node_modules of the checkout the working directory or the binary is in.
//
// `make setup` installs it (setup.sh; npm ci with an integrity hash). Only linux/amd64 is pinned. On the other
// platforms for which the package exists setup.sh installs the same version by name, without a hash.
//
// # The data directory
//
//	lock            held with flock while an instance lives; the truth about who owns the directory
//	instance.json   0600: process, ports, tokens and passwords of the instance that holds the lock
//	nats/           JetStream's files
//	clickhouse/     data/ (the engine's own), config.xml, users.xml (0600), start.sql, version.json
//	archive/        delivered files, written by ingest
//	log/            clickhouse.log (10 MB, rotated), engine.out (what the child printed)
//
// Ports, tokens and passwords are chosen at the first start and kept in instance.json, so that a dashboard's
// configuration stays valid; a port that was taken meanwhile is replaced. Nothing else of a stale
// instance.json is trusted.
//
// # Learned by running it
//
//   - main and every TestMain that starts engines call RunChildIfAsked first: the child is our own binary again.
//   - A lock or port conflict ends the engine with exit code 0 and no message. Ready therefore means that an
//     authenticated query returned this instance's nonce (a macro), and nothing else.
//   - The child serves until its pipe on descriptor 3 ends; on Linux it also dies with its parent. It has a
//     process group of its own, so that an interrupt at the terminal reaches only us.
//   - An engine left by a killed parent may hold clickhouse/data/status for seconds: a start waits up to 30 s,
//     then ends the process named there, after checking that it is an engine of this directory.
//   - Two NATS servers open one store without an error and lose messages: the lock comes before both.
//   - The start-up query runs as `default` from 127.0.0.1, so that user must exist without a password. It may only
//     SYSTEM START and STOP LISTEN; the supervisor opens a listener again which somebody closed.
//   - At its end the engine waits 5 s for clients that keep a connection open: close yours before Stop, which
//     waits one second and then kills.
//   - users.xml is read once: there is no reload in this mode.
//   - file() is not confined to user_files_path in this mode, for whoever holds READ ON FILE: idlewatt does, the
//     analyst does not. A relative name is looked for in archive/, the child's working directory.
//   - What the profile "default" holds reaches every user, so it is empty.
//   - From 26.2 on insert_deduplicate=0 has no effect: deduplicate_insert='disable' is needed, which 25.8 does not
//     know. PinnedSettings therefore asks for the server's version.
//   - In this mode file() maps files into memory, and a file cut short would crash the engine: pread is set.
//   - The log level is an argument (--log-level); the one in the configuration is ignored.
//   - Without --output-format a SELECT given as argument crashes the process at its end.
package local
