// Package serve answers predictions of a model over HTTP.
//
// A [Server] is an http.Handler with these paths:
//
//	POST /v1/predict  rows in, predictions out
//	GET  /v1/model    what the model is and which columns it reads
//	GET  /healthz     200 while the process lives
//	GET  /readyz      200 while requests are taken, 503 once it shuts down
//	GET  /metrics     Prometheus
//	GET  /            a page for people; it works without JavaScript
//
// # Usage
//
// Make a server of a model file and run it, or mount it as a handler in a server of your own:
//
//	s, err := serve.New("model.rf", serve.Options{})
//	err = s.Run(ctx, listener)           // until ctx ends; requests in work are finished first
//	mux.Handle("/predictions/", http.StripPrefix("/predictions", s))
//
// Call [Server.Reload] when the file has changed, for example on SIGHUP.
//
// # Rows
//
// Rows come as JSON, either objects or arrays, as CSV with a line of names, or as NDJSON:
//
//	{"rows": [{"age": 31, "sex": "M"}, {"age": null, "sex": "F"}]}
//	{"columns": ["age", "sex"], "rows": [[31, "M"], [null, "F"]]}
//
// Columns are found by name. Every row must name every column that the model reads; a value that is not known is
// null, or one of [data.DefaultMissing]. A cell means the same in every format: the string "31" is a number in a
// numeric column, the number 1 is the level 1 of a categorical one. Identifiers of the schema are optional and come
// back; targets and ignored columns may be there and are not read; any other column is an error. Bodies may be
// compressed by gzip (Content-Encoding).
//
// Accept chooses application/json, text/csv or application/x-ndjson; without a preference the answer is of the kind
// of the rows. The query parameters probabilities, scores and variance ask for more columns. JSON has no word for
// infinity: it is null there. The header Randfeat-Model is the sha256 of the model file that answered.
//
// Errors are {"error": {"code", "message", "row", "column"}}: row counts from 1, row and column are there where they
// are known. 400: the rows or parameters are wrong; 401: no or a wrong token; 413: too much; 415 and 406: a format
// that is not understood or not available; 429: too many requests at once, 503: out of time or shutting down, both
// with Retry-After where trying again helps; 500: a bug, whose stack is in the log. X-Request-Id names a request in
// answers and logs; one that comes with it keeps its own.
//
// # Batches
//
// Requests that come while all processors are busy are put together and predicted in one call; one that finds a
// processor idle never waits. A prediction has the same bits whatever rows are predicted with it.
//
// # Memory
//
// All bodies and answers together take at most [Limits].Memory bytes, an answer at most 64 MiB; every request in
// work also takes one block of [Limits].Batch rows.
//
// # Reload
//
// [Server.Reload] reads the model file again. A request is answered by one model from its first row to its last:
// those in work keep the old one. A file that is damaged or cannot predict changes nothing.
package serve
