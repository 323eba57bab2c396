//go:build dcgm

package dcgmhost

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// symbols are the functions of libdcgm that our calls of go-dcgm reach. A call of one that the
// library lacks would end the process, and no recover could catch it.
func symbols() []string {
	return []string{
		"dcgmInit", "dcgmShutdown", "dcgmConnect_v2", "dcgmDisconnect", "errorString", "dcgmGetEntityGroupEntities",
		"dcgmGetGpuInstanceHierarchy", "dcgmGroupCreate", "dcgmGroupAddEntity", "dcgmFieldGroupCreate", "dcgmWatchFields",
		"dcgmUpdateAllFields", "dcgmEntitiesGetLatestValues",
	}
}

// pinLibrary loads libdcgm for good and looks whether it has everything: go-dcgm unloads it
// when it disconnects, and what was bound by then would lead nowhere after that.
func pinLibrary() error {
	name := C.CString("libdcgm.so")
	defer C.free(unsafe.Pointer(name))
	lib := C.dlopen(name, C.RTLD_LAZY|C.RTLD_GLOBAL|C.RTLD_NODELETE)
	if lib == nil {
		return fmt.Errorf("libdcgm.so cannot be loaded (%s): install DCGM on this host, with its development files if libdcgm.so is a link, or use dcgm-exporter", C.GoString(C.dlerror()))
	}
	var missing []string
	for _, s := range symbols() {
		symbol := C.CString(s)
		if C.dlsym(lib, symbol) == nil {
			missing = append(missing, s)
		}
		C.free(unsafe.Pointer(symbol))
	}
	if len(missing) > 0 {
		return errors.New("libdcgm.so is of a version that this binary does not know: it lacks " + strings.Join(missing, ", ") + "; use dcgm-exporter")
	}
	return nil
}
