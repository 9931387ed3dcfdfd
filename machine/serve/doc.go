// Package serve answers predictions of a model over HTTP.
//
// A [Server] is an http.Handler. POST /v1/predict takes rows and answers predictions; [Endpoints] lists all paths.
//
// # Usage
//
// Make a server from a model file and run it, or mount it as a handler in a server of your own:
//
//	s, err := serve.New("model.rf", serve.Options{})
//	err = s.Run(ctx, listener)           // until ctx ends; requests in work are finished first
//	mux.Handle("/predictions/", http.StripPrefix("/predictions", s))
//
// Call [Server.Reload] when the file has changed, for example on SIGHUP.
//
// # Rows
//
// Rows come as JSON, either objects or arrays, as CSV or TSV with a header line, or as NDJSON:
//
//	{"rows": [{"age": 31, "sex": "M"}, {"age": null, "sex": "F"}]}
//	{"columns": ["age", "sex"], "rows": [[31, "M"], [null, "F"]]}
//
// Columns are found by name. Every row must name every column that the model reads; an unknown value is null, or one
// of [data.DefaultMissing]. A cell means the same in every format: the string "31" is a number in a numeric column,
// the number 1 is the level 1 of a categorical one. Identifiers of the schema are optional and are returned. Targets
// and ignored columns may be present and are not read. Any other column is an error. Bodies may be compressed by gzip
// (Content-Encoding).
//
// Accept chooses application/json, text/csv or application/x-ndjson; without a preference the answer has the format of
// the rows. The query parameters probabilities, scores, variance and interval ask for more columns. JSON has no
// infinity: it is null there. The header Randfeat-Model is the sha256 of the model file that answered.
//
// Errors are {"error": {"code", "message", "row", "column"}}. Row counts from 1; row and column are present if known.
// The status is
//
//   - 400 if the rows or parameters are wrong, 401 if the token is missing or wrong, 413 if there is too much;
//   - 415 for a format that is not understood, 406 for one that is not available;
//   - 429 for too many requests at once, 503 after a timeout or during shutdown, with Retry-After if trying again
//     helps;
//   - 500 for a bug, whose stack is in the log.
//
// X-Request-Id names a request in answers and logs; a request that brings an id keeps it.
//
// # Batches
//
// Requests that arrive while all processors are busy are predicted together in one call. A request that finds a
// processor idle never waits. A prediction has the same bits whatever rows are predicted with it.
//
// # Memory
//
// All bodies and answers together take at most [Limits].Memory bytes, an answer at most 64 MiB. Every request in work
// also takes one block of [Limits].Batch rows. A request counts against [Limits].InFlight when its body has arrived.
// When the memory is in use, a body that has been arriving for more than two seconds is cut (408) to make room.
//
// # Stop
//
// When the context of [Server.Run] ends, /readyz fails and answers say "Connection: close". After [Limits].Drain the
// listener closes. Open connections have one second to send a last request, because a client may be sending it at this
// moment. A body that has not arrived by then is refused with 503. Requests in work have until [Limits].Shutdown.
//
// # Reload
//
// [Server.Reload] reads the model file again. One model answers a request from its first row to its last: requests in
// work keep the old one. A file that is damaged or cannot predict changes nothing.
//
// # Map of the files
//
// server.go has the server, routes.go its endpoints and options.go the limits. Package internal/httpd runs connections,
// reads bodies and stops. A prediction request passes through predict.go (limits), rows.go or json.go (rows), batch.go
// (prediction) and answer.go (output). model.go is a loaded model. query.go reads parameters, problem.go makes errors,
// metrics.go counts. page.go, html.go, why.go and answerhtml.go make the page, openapi.go the description.
package serve
