package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/httpd"
	"github.com/randfeat/randfeat/machine"
)

// fault is the error of a request, as clients see it.
type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Row     int64  `json:"row,omitempty"`    // from 1; 0: not about a row
	Column  string `json:"column,omitempty"` // empty: not about a column

	status int
	retry  bool  // the same request may succeed in a second
	cause  error // for the log, never for clients
}

// Error returns the message with the row.
func (p *fault) Error() string {
	if p.Row > 0 {
		return fmt.Sprintf("row %d: %s", p.Row, p.Message)
	}
	return p.Message
}

func problem(status int, code, format string, args ...any) *fault {
	return &fault{Code: code, Message: fmt.Sprintf(format, args...), status: status}
}

func tooLarge(format string, args ...any) *fault {
	return problem(http.StatusRequestEntityTooLarge, "too_large", format, args...)
}

func busy(format string, args ...any) *fault {
	p := problem(http.StatusTooManyRequests, "busy", format, args...)
	p.retry = true
	return p
}

// bodyFault is the fault of a body that was not read; nil if there is no error.
func bodyFault(e *httpd.BodyError) *fault {
	if e == nil {
		return nil
	}
	return &fault{Code: e.Code, Message: e.Message, status: e.Status, retry: e.Retry}
}

// statusGone is the status of requests whose client has left. Nobody reads it, but metrics count it.
const statusGone = 499

// problemOf translates an error for the client. row is the row that it is about, from 1, or 0 if unknown.
func problemOf(err error, row int64) *fault {
	var p *fault
	var in *data.InputError
	var columns *data.SchemaError
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, context.DeadlineExceeded):
		p = problem(http.StatusServiceUnavailable, "timeout", "the request took too long: send fewer rows")
		p.retry = true
		return p
	case errors.Is(err, context.Canceled):
		return problem(statusGone, "gone", "the client has left")
	case errors.As(err, &in):
		p = problem(http.StatusBadRequest, "bad_value", "%s", in.Detail)
		p.Row, p.Column = row, in.Column
	case errors.As(err, &columns):
		p = problem(http.StatusBadRequest, "bad_columns", "%s", columns.Text())
	case errors.Is(err, dense.ErrNotFinite):
		p = problem(http.StatusBadRequest, "bad_value", "%v", err)
		p.Row = row
	case errors.Is(err, machine.ErrSetup):
		p = problem(http.StatusBadRequest, "not_available", "%v", err)
	default:
		p = internal(err)
	}
	return p
}

// internal is a problem of the server. Its cause is logged and not shown.
func internal(cause error) *fault {
	p := problem(http.StatusInternalServerError, "internal", "the server failed: see its log")
	p.cause = cause
	return p
}

// send answers with the problem as JSON.
func (p *fault) send(w http.ResponseWriter, r *http.Request) {
	p.header(w, r)
	body, err := json.Marshal(struct {
		Error *fault `json:"error"`
	}{p})
	if err != nil { // strings and a number always marshal
		body = []byte(`{"error":{"code":"internal","message":"the error cannot be written"}}`)
	}
	body = append(body, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.status)
	w.Write(body)
}

// header sets the headers that go with a problem.
func (p *fault) header(w http.ResponseWriter, r *http.Request) {
	if p.retry {
		w.Header().Set("Retry-After", "1")
	}
	switch p.status {
	case http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable, http.StatusRequestTimeout:
		if r.ProtoMajor == 1 { // HTTP/2 ends the stream instead
			w.Header().Set("Connection", "close") // the rest of the body is not read
		}
	}
}
