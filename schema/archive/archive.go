// Package archive says where an archived object lies below the data directory.
//
// Only the layout lives here, so that whoever writes an object and whoever reads it agree.
// Writing is ingest's work.
package archive

import "path/filepath"

// Path returns the file of the object with that SHA-256 (64 hex digits) below root.
func Path(root, sha256 string) string {
	if len(sha256) < 3 {
		return filepath.Join(root, "sha256", sha256)
	}
	return filepath.Join(root, "sha256", sha256[:2], sha256)
}
