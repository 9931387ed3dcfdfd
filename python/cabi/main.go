// Command cabi is the C interface of randfeat, built with -buildmode=c-shared or c-archive. randfeat.h documents
// every function; cgo checks the functions here against its declarations.
//
// Files: handle.go maps handles to objects, status.go turns errors and panics into statuses, job.go runs long calls
// in the background, array.go views the caller's memory as matrices. Each of the other files has the functions of
// one part of the library.
package main

/*
#include <stdlib.h>
#include "randfeat.h"
*/
import "C"

import (
	"runtime"
	"runtime/debug"
	"unsafe"
)

func main() {}

//export rf_abi
func rf_abi() C.int32_t { return C.RF_ABI }

//export rf_version
func rf_version(out *C.rf_text) {
	v := map[string]string{"go": runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v["revision"] = s.Value
			}
		}
	}
	_ = giveJSON(out, v)
}

//export rf_free
func rf_free(p unsafe.Pointer) { C.free(p) }

//export rf_threads
func rf_threads(n C.int32_t) C.int32_t { return C.int32_t(runtime.GOMAXPROCS(int(n))) }

//export rf_collect
func rf_collect() { debug.FreeOSMemory() }
