package main

// #include "randfeat.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
)

var errHandle = errors.New("unknown handle")

// objects maps handles to objects. Numbers are never used again, so a handle of a released object is an error
// instead of another object.
var objects = struct {
	sync.RWMutex
	byHandle map[uint64]any
	last     uint64
}{byHandle: map[uint64]any{}}

// releaser is an object that must give something back when its handle is released.
type releaser interface{ release() }

// put stores an object and returns its handle.
func put(v any) C.uint64_t {
	objects.Lock()
	defer objects.Unlock()
	objects.last++
	objects.byHandle[objects.last] = v
	return C.uint64_t(objects.last)
}

// get returns the object of a handle, or an error if the handle is unknown or of another type.
func get[T any](h C.uint64_t) (T, error) {
	objects.RLock()
	v, ok := objects.byHandle[uint64(h)]
	objects.RUnlock()
	t, fits := v.(T)
	switch {
	case !ok:
		return t, fmt.Errorf("handle %d was released or never given: %w", uint64(h), errHandle)
	case !fits:
		return t, fmt.Errorf("handle %d is of another kind of object: %w", uint64(h), errHandle)
	}
	return t, nil
}

//export rf_release
func rf_release(h C.uint64_t) {
	objects.Lock()
	v := objects.byHandle[uint64(h)]
	delete(objects.byHandle, uint64(h))
	objects.Unlock()
	if r, ok := v.(releaser); ok {
		r.release()
	}
}

//export rf_live
func rf_live() C.int64_t {
	objects.RLock()
	defer objects.RUnlock()
	return C.int64_t(len(objects.byHandle))
}
