#!/bin/sh
# Installs the ClickHouse library (libchdb.so, 566 MB) which deploy/local runs, and puts it where a binary built
# anywhere finds it: ${XDG_DATA_HOME:-~/.local/share}/idlewatt/lib. Called by `make setup`; quick when done already.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
version=26.7.3-stable.1

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
	say "$*"
	exit 1
}

case "$(uname -s)/$(uname -m)" in
Linux/x86_64) package=@chdb/lib-linux-x64-gnu ;;
Linux/aarch64 | Linux/arm64) package=@chdb/lib-linux-arm64-gnu ;;
Darwin/arm64) package=@chdb/lib-darwin-arm64 ;;
Darwin/x86_64) package=@chdb/lib-darwin-x64 ;;
*) die "there is no ClickHouse library for $(uname -s)/$(uname -m); use an external server (clickhouse URL in the configuration)" ;;
esac

library="$here/node_modules/$package/libchdb.so"
case "${XDG_DATA_HOME:-}" in
/*) data=$XDG_DATA_HOME ;;
*) data=${HOME:?setup: HOME is not set}/.local/share ;;
esac
target="$data/idlewatt/lib/libchdb.so"
stamp="$data/idlewatt/lib/version"

if [ -f "$target" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$package@$version" ]; then
	say "the ClickHouse library $version is in place: $target"
	exit 0
fi

installed=$(sed -n 's/.*"version": *"\([^"]*\)".*/\1/p' "$here/node_modules/$package/package.json" 2>/dev/null || true)
if [ ! -f "$library" ] || [ "$installed" != "$version" ]; then
	command -v npm >/dev/null 2>&1 ||
		die "npm is missing; install Node.js 20 or newer (https://nodejs.org, or your system's package nodejs and npm), then run make setup again"
	say "installing $package $version with npm"
	if [ "$package" = @chdb/lib-linux-x64-gnu ]; then
		# The lock file pins the package's hash.
		npm ci --prefix "$here" --no-audit --no-fund --ignore-scripts --loglevel=error >&2 ||
			die "npm ci failed (see above); is the package registry reachable?"
	else
		# Same version, no hash: the lock file knows linux-x64 only. npm itself would refuse the locked
		# package here, so this one goes to a project of its own that is then moved into place.
		mkdir -p "$here/node_modules/.other"
		npm install --prefix "$here/node_modules/.other" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error "$package@$version" >&2 ||
			die "npm install of $package@$version failed (see above); is the package registry reachable?"
		mkdir -p "$here/node_modules/@chdb"
		rm -rf "${here:?}/node_modules/$package"
		mv "$here/node_modules/.other/node_modules/$package" "$here/node_modules/$package"
	fi
fi
[ -f "$library" ] || die "npm installed no $library"

mkdir -p "$data/idlewatt/lib"
# A hard link costs nothing; a copy where the file systems differ. A link to the checkout would break with it.
rm -f "$target.new"
ln "$library" "$target.new" 2>/dev/null || cp "$library" "$target.new" ||
	die "cannot write $target.new"
mv -f "$target.new" "$target"
printf '%s\n' "$package@$version" >"$stamp"
say "the ClickHouse library $version is in place: $target"
