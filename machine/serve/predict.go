package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// work is the memory of one request. Requests reuse it through a pool.
type work struct {
	in, out data.Block
	job     *job // refers to in and out
	body    []byte
	layout  answer
	answer  bytes.Buffer
	held    int64 // bytes counted against Limits.Memory

	surprises []data.Surprise
}

func newWork() *work {
	k := new(work)
	k.job, k.layout.w = newJob(&k.in, &k.out), &k.answer
	return k
}

// keepBytes is the largest body or answer whose memory returns to the pool. One huge request must not pin
// memory.
const keepBytes = 1 << 20

// enter admits a request for predictions, or refuses it. Every admitted request must leave.
func (s *Server) enter() (*work, *fault) {
	if s.draining.Load() {
		return nil, shuttingDown()
	}
	if n := s.inFlight.Add(1); n > int64(s.o.Limits.InFlight) {
		s.inFlight.Add(-1)
		return nil, busy("%d requests are in work: try again later", s.o.Limits.InFlight)
	}
	s.metrics.inFlight.with().add(1)
	return s.work.Get().(*work), nil
}

// leave returns the memory and the counts of a request.
func (s *Server) leave(k *work) {
	s.inFlight.Add(-1)
	s.metrics.inFlight.with().add(-1)
	s.memory.Add(-k.held)
	k.held = 0
	if max(k.answer.Cap(), cap(k.body)) > keepBytes || cap(k.in.Cols) > 1<<12 || k.in.Full() {
		return
	}
	k.answer.Reset()
	s.work.Put(k)
}

// hold counts bytes of a request against the memory limit of the server. Call it before allocating. The bytes
// are released by leave, also after a refusal.
func (s *Server) hold(k *work, n int) *fault {
	k.held += int64(n)
	if s.memory.Add(int64(n)) > s.o.Limits.Memory {
		return busy("requests with %d bytes are in work: try again later", s.o.Limits.Memory)
	}
	return nil
}

// servePredict answers /v1/predict. Cheap checks come first: limits, parameters and headers before the body is
// read.
func (s *Server) servePredict(w http.ResponseWriter, r *http.Request) *fault {
	if p := allow(w, r, http.MethodPost); p != nil {
		return p
	}
	k, p := s.enter()
	if p != nil {
		return p
	}
	defer s.leave(k)
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return problem(http.StatusBadRequest, "bad_option", "the query cannot be read: %v", err)
	}
	o, p := tableOptions(query)
	if p != nil {
		return p
	}
	content, p := contentType(r.Header.Get("Content-Type"))
	if p != nil {
		return p
	}
	accept, ok := accepted(r.Header.Values("Accept"), content)
	if !ok {
		return problem(http.StatusNotAcceptable, "not_acceptable", "Accept: want %s, %s or %s", typeJSON, typeCSV,
			typeNDJSON)
	}
	body, p := s.body(k, w, r)
	if p != nil {
		return p
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.o.Limits.Time)
	defer cancel()
	// One model for the whole request, whatever Reload does meanwhile.
	d := s.current.Load()
	if p := s.predict(ctx, d, o, content, body, accept, k); p != nil {
		return p
	}
	head := w.Header()
	if accept == typeCSV {
		accept = csvHeader
	}
	head.Set("Content-Type", accept)
	head.Set(modelHeader, d.sha256)
	if len(k.surprises) > 0 {
		values := int64(0)
		for _, s := range k.surprises {
			values += s.Rows
		}
		head.Set(surprisesHeader, strconv.FormatInt(values, 10))
	}
	head.Set("Content-Length", strconv.Itoa(k.answer.Len()))
	w.Write(k.answer.Bytes())
	return nil
}

// contentType returns the kind of rows that a Content-Type header names.
func contentType(header string) (string, *fault) {
	t, params, err := mime.ParseMediaType(header)
	if err == nil {
		if c := params["charset"]; c != "" && !strings.EqualFold(c, "utf-8") && !strings.EqualFold(c, "us-ascii") {
			return "", problem(http.StatusUnsupportedMediaType, "unsupported_media_type", "charset %s, want utf-8",
				show(c))
		}
		switch t {
		case typeJSON, typeCSV, typeTSV, typeNDJSON:
			return t, nil
		case "application/ndjson", "application/jsonl":
			return typeNDJSON, nil
		}
	}
	return "", problem(http.StatusUnsupportedMediaType, "unsupported_media_type",
		"Content-Type %s, want %s, %s, %s or %s",
		show(header), typeJSON, typeCSV, typeTSV, typeNDJSON)
}

// accepted chooses the type of the answer (RFC 9110, section 12.5.1): the one with the greatest weight in
// Accept, or the type of the rows if there is no preference.
func accepted(headers []string, content string) (string, bool) {
	if content == typeTSV {
		content = typeCSV
	}
	kinds := []string{content, typeJSON, typeCSV, typeNDJSON} // the first of equal weights wins
	weight := make([]float64, len(kinds))
	exact := make([]int, len(kinds)) // how closely a range names the kind: */* 1, text/* 2, text/csv 3
	said := false
	for _, h := range headers {
		for part := range strings.SplitSeq(h, ",") {
			t, params, err := mime.ParseMediaType(part)
			if err != nil {
				continue
			}
			said = true
			q := 1.0
			if v, err := strconv.ParseFloat(params["q"], 64); err == nil {
				q = v
			}
			for i, k := range kinds {
				match := 0
				switch family, _, _ := strings.Cut(k, "/"); t {
				case k:
					match = 3
				case family + "/*":
					match = 2
				case "*/*":
					match = 1
				}
				if match > exact[i] {
					exact[i], weight[i] = match, q
				}
			}
		}
	}
	if !said {
		return content, true
	}
	best := 0
	for i := range kinds {
		if weight[i] > weight[best] {
			best = i
		}
	}
	return kinds[best], weight[best] > 0
}

// body reads and decompresses the body. The limit holds before and after decompression.
func (s *Server) body(k *work, w http.ResponseWriter, r *http.Request) ([]byte, *fault) {
	limit := s.o.Limits.Body
	if r.ContentLength > limit {
		return nil, tooLarge("the body has %d bytes, the limit is %d", r.ContentLength, limit)
	}
	var in io.Reader = http.MaxBytesReader(w, r.Body, limit)
	expect := max(r.ContentLength, 0)
	switch e := r.Header.Get("Content-Encoding"); strings.ToLower(e) {
	case "", "identity":
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, bodyProblem(err, limit)
		}
		in = z
		expect *= 4 // a guess for the first buffer
	default:
		return nil, problem(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"Content-Encoding %s, want gzip or none", show(e))
	}
	if err := s.readAll(k, in, limit, int(min(expect, 64<<10))); err != nil {
		return nil, bodyProblem(err, limit)
	}
	return k.body, nil
}

var errTooLong = errors.New("too long")

func bodyProblem(err error, limit int64) *fault {
	var p *fault
	var long *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &long):
		return tooLarge("the body has more than %d bytes", limit)
	case errors.Is(err, errTooLong):
		return tooLarge("the decompressed body has more than %d bytes", limit)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return problem(http.StatusBadRequest, "bad_body", "the body is not gzip, as Content-Encoding says")
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return problem(http.StatusRequestTimeout, "timeout", "the body came too slowly")
	}
	// err may contain addresses, which clients must not see.
	return problem(http.StatusBadRequest, "bad_body", "the body ended early or cannot be read")
}

// chunkBytes is the step in which bodies are read: no client gets more memory in advance than it has sent.
const chunkBytes = 64 << 10

// chunks are reused. Otherwise each long body would leave garbage of its own size.
var chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

// readAll is io.ReadAll into k.body, with a bound. Every step is counted before its memory is taken. The chunks of a
// long body are joined once it is complete, for one body of the server at a time (Server.joining). This needs the
// memory of one more body, which is not counted. A growing buffer would instead leave twice the body as garbage while
// slow clients send.
func (s *Server) readAll(k *work, r io.Reader, limit int64, expect int) error {
	first := max(expect+512, cap(k.body))
	if p := s.hold(k, first); p != nil {
		return p
	}
	k.body = slices.Grow(k.body[:0], first)
	b := k.body[:0:first]
	var full [][]byte // complete parts before b
	var taken []*[chunkBytes]byte
	defer func() {
		for _, c := range taken {
			chunks.Put(c)
		}
	}()
	total := int64(0) // bytes in full
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if total+int64(len(b)) > limit {
			return errTooLong
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if len(b) == cap(b) {
			if p := s.hold(k, chunkBytes); p != nil {
				return p
			}
			c := chunks.Get().(*[chunkBytes]byte)
			full, taken, total = append(full, b), append(taken, c), total+int64(len(b))
			b = c[:0]
		}
	}
	if len(full) == 0 {
		k.body = b
		return nil
	}
	s.joining.Lock()
	defer s.joining.Unlock()
	body := make([]byte, 0, total+int64(len(b)))
	for _, part := range full {
		body = append(body, part...)
	}
	k.body = append(body, b...)
	s.hold(k, cap(k.body)-first-len(taken)*chunkBytes) // never more than was held before
	return nil
}

// predict answers rows with model d into k.answer, block by block.
func (s *Server) predict(ctx context.Context, d *loaded, o machine.TableOptions, content string, body []byte,
	accept string, k *work) *fault {
	b, err := d.batcher(o)
	if err != nil {
		return problemOf(err, 0)
	}
	rows, records, err := openRows(body, content, d, b.kinds)
	if err != nil {
		return problemOf(err, 0)
	}
	begun, total := false, 0
	k.surprises = k.surprises[:0]
	for {
		if err := ctx.Err(); err != nil {
			return problemOf(err, 0)
		}
		// Ask for one row more than allowed, to notice that there are too many.
		err := rows.read(&k.in, min(s.o.Limits.Batch, s.o.Limits.Rows-total+1))
		if err == io.EOF {
			break
		}
		if err != nil {
			return problemOf(err, 0)
		}
		if total+k.in.Rows > s.o.Limits.Rows {
			return tooLarge("more than %d rows", s.o.Limits.Rows)
		}
		if err := b.predict(ctx, k.job); err != nil {
			return failed(err, int64(total), k.job)
		}
		if !begun { // only now is it known which identifiers the request has
			k.layout.begin(accept, records, d.sha256, b.out, rows.given()[d.fields:d.ids])
			begun = true
		}
		k.tell(total)
		total += k.in.Rows
		before := k.answer.Len()
		k.layout.block(&k.out)
		if k.answer.Len() > answerBytes {
			return tooLarge("the answer has more than %d bytes: send fewer rows", answerBytes)
		}
		if p := s.hold(k, k.answer.Len()-before); p != nil {
			return p
		}
	}
	if !begun {
		k.layout.begin(accept, records, d.sha256, b.out, rows.given()[d.fields:d.ids])
	}
	if err := k.layout.close(k.surprises); err != nil {
		return internal(err)
	}
	s.metrics.rows.with().add(float64(total))
	return nil
}

// tell adds the surprises of a job; before is the number of rows before it.
func (k *work) tell(before int) {
	for _, s := range k.job.surprises {
		i := slices.IndexFunc(k.surprises, func(t data.Surprise) bool {
			return t.Column == s.Column && t.What == s.What
		})
		if i >= 0 {
			k.surprises[i].Rows += s.Rows
		} else if len(k.surprises) < maxSurprises {
			s.Where = "row " + strconv.Itoa(before+s.row+1)
			k.surprises = append(k.surprises, s.Surprise)
		}
	}
}

// failed turns the error of a job into a problem for the client.
func failed(err error, before int64, j *job) *fault {
	row := int64(0)
	switch {
	case j.row >= 0:
		row = before + int64(j.row) + 1
	case j.in.Rows == 1:
		row = before + 1
	}
	return problemOf(err, row)
}

// openRows starts reading a body. records says that rows are objects, not arrays.
func openRows(body []byte, content string, d *loaded, kinds []data.Kind) (r rowReader, records bool, err error) {
	switch content {
	case typeJSON:
		j, err := newJSONRows(body, d, kinds)
		if err != nil {
			return nil, false, err
		}
		return j, !j.arrays, nil
	case typeNDJSON:
		r, err = newTableRows(body, data.NDJSON, 0, d, kinds)
	case typeTSV:
		r, err = newTableRows(body, data.CSV, '\t', d, kinds)
	default:
		r, err = newTableRows(body, data.CSV, 0, d, kinds)
	}
	return r, true, err
}
