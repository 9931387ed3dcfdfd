package main

/*
#include <stdlib.h>
#include "randfeat.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/theory"
)

var errInternal = errors.New("bug in randfeat")

// call runs the body of an exported function. An error or a panic becomes a status with a text; a panic must not
// cross into C.
func call(e *C.rf_text, f func() error) C.int32_t { return status(guard(f), e) }

// guard turns a panic of f into an error with a trace.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w, please report it: %v\n%s", errInternal, r, debug.Stack())
		}
	}()
	return f()
}

// status writes the text of an error and returns its kind.
func status(err error, e *C.rf_text) C.int32_t {
	if err == nil {
		return C.RF_OK
	}
	give(e, err.Error())
	switch {
	case errors.Is(err, errInternal):
		return C.RF_INTERNAL
	case errors.Is(err, context.Canceled):
		return C.RF_CANCELLED
	case errors.Is(err, errHandle):
		return C.RF_HANDLE
	case errors.Is(err, theory.ErrNoClosedForm):
		return C.RF_NO_FORM
	case errors.Is(err, data.ErrInput), errors.Is(err, data.ErrSchema), errors.Is(err, data.ErrSurprise):
		return C.RF_INPUT
	}
	return C.RF_VALUE
}

// give stores a copy of a text for the caller, who frees it with rf_free. A nil out means that the caller does not
// want it.
func give(out *C.rf_text, s string) {
	if out != nil {
		*out = C.CString(s)
	}
}

func giveJSON(out *C.rf_text, v any) error {
	if out == nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err == nil {
		give(out, string(b))
	}
	return err
}

// parse parses a JSON argument.
func parse(s C.rf_string, v any) error {
	if err := json.Unmarshal([]byte(C.GoString(s)), v); err != nil {
		return fmt.Errorf("options: %w", err)
	}
	return nil
}

//export rf_test_panic
func rf_test_panic(where C.int32_t, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		if where == 0 {
			panic("a test of the calling goroutine")
		}
		par.For(2, 1, func(lo, _ int) {
			if lo == 1 {
				panic("a test of a worker")
			}
		})
		return nil
	})
}
