package serve

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/httpd"
	"github.com/randfeat/randfeat/machine"
)

// work is the memory of one request. Requests reuse it through a pool.
type work struct {
	in, out data.Block
	job     *job   // refers to in and out
	body    []byte // texts of in are parts of it
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

// enter admits a request for predictions whose body has arrived, or refuses it. Every admitted request must leave.
func (s *Server) enter(body *httpd.Body) (*work, *fault) {
	if n := s.inFlight.Add(1); n > int64(s.o.Limits.InFlight) {
		s.inFlight.Add(-1)
		return nil, busy("%d requests are in work: try again later", s.o.Limits.InFlight)
	}
	s.metrics.inFlight.with().add(1)
	k := s.work.Get().(*work)
	k.body = body.Bytes
	return k, nil
}

// leave returns the memory and the counts of a request.
func (s *Server) leave(k *work) {
	s.inFlight.Add(-1)
	s.metrics.inFlight.with().add(-1)
	s.memory.Give(k.held)
	k.held = 0
	large := max(k.answer.Cap(), cap(k.body)) > keepBytes
	k.body = nil
	if large || cap(k.in.Cols) > 1<<12 || k.in.Full() {
		return
	}
	k.answer.Reset()
	s.work.Put(k)
}

// hold counts bytes of an answer against the memory limit of the server. They are released by leave.
func (s *Server) hold(k *work, n int) *fault {
	if !s.memory.Take(int64(n)) {
		return bodyFault(s.memory.Full())
	}
	k.held += int64(n)
	return nil
}

// servePredict answers /v1/predict. Cheap checks come first: parameters and headers before the body is read. A request
// takes a slot when its body has arrived, so clients that send slowly keep nobody out.
func (s *Server) servePredict(w http.ResponseWriter, r *http.Request) *fault {
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
	body, e := s.http.ReadBody(w, r, s.o.Limits.Body, s.memory)
	if e != nil {
		return bodyFault(e)
	}
	defer body.Free()
	k, p := s.enter(body)
	if p != nil {
		return p
	}
	defer s.leave(k)
	ctx, cancel := context.WithTimeout(r.Context(), s.o.Limits.Time)
	defer cancel()
	// One model for the whole request, whatever Reload does meanwhile.
	d := s.current.Load()
	if d.watch != nil {
		began := time.Now()
		defer func() { d.watch.served.Add(int64(time.Since(began))) }()
	}
	k.job.watched = true
	if p := s.predict(ctx, d, o, content, body.Bytes, accept, k); p != nil {
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
