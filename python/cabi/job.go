package main

// #include "randfeat.h"
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// work is what a job computes. It returns an object that gets a handle, or nil, and a value that becomes JSON, or
// nil.
type work func(ctx context.Context, progress func(stage string, done, total int64)) (object, report any, err error)

// job is work on a goroutine of its own.
type job struct {
	cancel context.CancelFunc
	done   chan struct{}

	// Written before done is closed, read only after it.
	object any
	report json.RawMessage
	err    error

	mu          sync.Mutex
	stage       string
	part, total int64
}

// release cancels the work; its result is dropped.
func (j *job) release() { j.cancel() }

func (j *job) progress(stage string, done, total int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stage, j.part, j.total = stage, done, total
}

// run runs f: at once if jobOut is nil, otherwise as a job whose handle it stores there.
func run(f work, jobOut *C.uint64_t, handle *C.uint64_t, report *C.rf_text) error {
	if jobOut == nil {
		object, r, err := f(context.Background(), func(string, int64, int64) {})
		if err != nil {
			return err
		}
		if object != nil && handle != nil {
			*handle = put(object)
		}
		if r != nil {
			return giveJSON(report, r)
		}
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	j := &job{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(j.done)
		defer cancel()
		j.err = guard(func() error {
			object, r, err := f(ctx, j.progress)
			if err != nil {
				if ctx.Err() != nil && !errors.Is(err, context.Canceled) {
					return context.Canceled
				}
				return err
			}
			j.object = object
			j.report, err = json.Marshal(r)
			return err
		})
	}()
	*jobOut = put(j)
	return nil
}

//export rf_job_wait
func rf_job_wait(h C.uint64_t, ms C.int32_t, finished *C.int32_t, stage *C.rf_text, done, total *C.int64_t,
	e *C.rf_text) C.int32_t {
	*finished = 0
	j, err := get[*job](h)
	if err != nil {
		*finished = 1
		return status(err, e)
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-j.done:
		*finished = 1
		return status(j.err, e)
	case <-timer.C:
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stage != "" {
		give(stage, j.stage)
	}
	if done != nil {
		*done = C.int64_t(j.part)
	}
	if total != nil {
		*total = C.int64_t(j.total)
	}
	return C.RF_OK
}

//export rf_job_cancel
func rf_job_cancel(h C.uint64_t) {
	if j, err := get[*job](h); err == nil {
		j.cancel()
	}
}

//export rf_job_result
func rf_job_result(h C.uint64_t, handle *C.uint64_t, report *C.rf_text, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		j, err := get[*job](h)
		if err != nil {
			return err
		}
		select {
		case <-j.done:
		default:
			return errors.New("the job is not finished: wait for it first")
		}
		if j.err != nil {
			return j.err
		}
		if handle != nil {
			*handle = 0
			if j.object != nil {
				*handle, j.object = put(j.object), nil
			}
		}
		give(report, string(j.report))
		return nil
	})
}
