package serve

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// node is a JSON object of the document; encoding/json writes its keys in order.
type node = map[string]any

// serveOpenAPI describes the interface with the columns of the model, for programs that generate clients or
// tests.
func (s *Server) serveOpenAPI(w http.ResponseWriter, _ *http.Request) *fault {
	d := s.current.Load()
	b, err := json.MarshalIndent(s.openAPI(d), "", "  ")
	if err != nil {
		return internal(err)
	}
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set(modelHeader, d.sha256)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)+1))
	w.Write(append(b, '\n'))
	return nil
}

// openAPI returns the document, OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.0).
func (s *Server) openAPI(d *loaded) node {
	token := s.token.Load() != nil
	paths := node{}
	for _, r := range s.routes() {
		if r.operation == nil {
			continue
		}
		operation := r.operation(d)
		operation["summary"] = r.Summary
		if token && (r.open == nil || !r.open(&s.o)) {
			operation["security"] = []node{{"bearer": []string{}}}
			operation["responses"].(node)["401"] = problemAnswer("no token, or a wrong one")
		}
		path := node{}
		for _, m := range r.Methods {
			path[strings.ToLower(m)] = operation
		}
		paths[r.Path] = path
	}
	doc := node{
		"openapi": "3.1.0",
		"info": node{"title": "randfeat serve", "version": d.sha256[:12],
			"description": "Predictions of a " + string(d.model.Kind) + " model. The version is the beginning of the " +
				"SHA-256 of its file."},
		"paths": paths,
		"components": node{"schemas": node{
			"Row": d.rowSchema(), "Answer": d.answerSchema(), "Problem": problemSchema()}},
	}
	if token {
		doc["components"].(node)["securitySchemes"] = node{"bearer": node{"type": "http", "scheme": "bearer"}}
	}
	return doc
}

// getOperation is a GET without parameters; more are statuses beside 200.
func getOperation(ok node, more ...string) node {
	responses := node{"200": ok, "421": problemAnswer("a host that is not this server")}
	for _, code := range more {
		responses[code] = problemAnswer("not now")
	}
	return node{"responses": responses}
}

func jsonContent(about string, schema node) node {
	return node{"description": about, "content": node{typeJSON: node{"schema": schema}}}
}

func textContent(about string) node {
	return node{"description": about, "content": node{"text/plain": node{"schema": node{"type": "string"}}}}
}

func ref(name string) node { return node{"$ref": "#/components/schemas/" + name} }

func problemAnswer(about string) node {
	return node{"description": about, "content": node{typeJSON: node{"schema": ref("Problem")}}}
}

func problemSchema() node {
	text := node{"type": "string"}
	return node{"type": "object", "required": []string{"error"}, "properties": node{"error": node{
		"type": "object", "required": []string{"code", "message"}, "properties": node{"code": text, "message": text,
			"row":    node{"type": "integer", "minimum": 1, "description": "the row it is about, from 1"},
			"column": text}}}}
}

func (d *loaded) predictOperation() node {
	rows := node{"type": "array", "items": ref("Row")}
	tables := node{"schema": node{"type": "string"}}
	var parameters []node
	for _, name := range d.offers() {
		schema := node{"type": "boolean"}
		if name == "interval" {
			schema = node{"enum": append([]string{"", "true", "false"}, intervals...)}
		}
		parameters = append(parameters, node{"name": name, "in": "query", "schema": schema})
	}
	answers := node{typeJSON: node{"schema": ref("Answer")}, typeCSV: tables, typeNDJSON: tables}
	operation := node{
		"description": "Rows may also be sent as " + typeCSV + ", " + typeTSV + " (with a line of names) and " +
			typeNDJSON + ", and compressed with gzip; Accept chooses among " + typeJSON + ", " + typeCSV + " and " +
			typeNDJSON + ".",
		"requestBody": node{"required": true, "content": node{
			typeJSON: node{"schema": node{"oneOf": []node{rows,
				{"type": "object", "required": []string{"rows"}, "additionalProperties": false,
					"properties": node{"rows": rows}},
				{"type": "object", "required": []string{"columns", "rows"}, "additionalProperties": false,
					"properties": node{"columns": node{"const": d.columns[:d.fields]},
						"rows": node{"type": "array", "items": d.cellsSchema()}}},
			}}}}},
		"responses": node{
			"200": node{"description": "one answer per row", "content": answers},
			"400": problemAnswer("rows or parameters that cannot be used"),
			"406": problemAnswer("Accept names nothing that can be answered"),
			"408": problemAnswer("the body came too slowly"),
			"413": problemAnswer("more bytes or rows than the server takes"),
			"415": problemAnswer("a Content-Type that is no table"),
			"421": problemAnswer("a host that is not this server"),
			"429": problemAnswer("too much work at the moment"),
			"500": problemAnswer("a bug"),
			"503": problemAnswer("too slow, or shutting down"),
		},
	}
	if parameters != nil {
		operation["parameters"] = parameters
	}
	return operation
}

// noValue is a pattern of the texts of [data.DefaultMissing].
var noValue = func() string {
	var texts []string
	for _, t := range data.DefaultMissing {
		texts = append(texts, regexp.QuoteMeta(t))
	}
	return strings.Join(texts, "|")
}()

// datePatterns match dates in the orders of [data.Field].Format, in the plainest form, with days that every
// month has. The server accepts more than they say; generated tests must not produce 30 February.
var datePatterns = map[string]string{
	"year-month-day": "[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])",
	"day-month-year": "(0[1-9]|1[0-9]|2[0-8])[./](0[1-9]|1[0-2])[./][12][0-9]{3}",
	"month-day-year": "(0[1-9]|1[0-2])[./](0[1-9]|1[0-9]|2[0-8])[./][12][0-9]{3}",
}

// fieldSchema is the schema of a cell. A text may stand for a number or for no value.
func fieldSchema(f *data.Field) node {
	number := node{"anyOf": []node{{"type": []string{"number", "null"}, "minimum": -maxNumber, "maximum": maxNumber},
		{"type": "string", "pattern": `^(` + noValue + `|[-+]?[0-9]{1,15}(\.[0-9]{1,15})?)?$`}}}
	switch f.Kind {
	case data.Numeric:
		if f.Range != nil {
			number["description"] = "from " + short(f.Range[0]) + " to " + short(f.Range[1]) + " at the fit"
		}
		return number
	case data.Boolean:
		return node{"anyOf": []node{{"type": []string{"boolean", "null"}}, {"enum": []int{0, 1}},
			{"type": "string", "pattern": "^(" + noValue + "|[Tt]rue|TRUE|[Ff]alse|FALSE|0|1)?$"}}}
	case data.Time:
		return node{"anyOf": []node{{"type": "null"},
			{"type": "string", "pattern": "^(" + noValue + "|" + datePatterns[f.Format] + ")?$"}},
			"description": "a date as at the fit, " + f.Format}
	}
	s := node{"type": []string{"string", "number", "boolean", "null"}}
	if len(f.Levels) > 0 {
		s["examples"] = f.Levels[:min(len(f.Levels), shownLevels)]
	}
	return s
}

// cellsSchema is the schema of a row as an array.
func (d *loaded) cellsSchema() node {
	var cells []node
	for i := range d.model.Schema.Fields {
		cells = append(cells, fieldSchema(&d.model.Schema.Fields[i]))
	}
	return node{"type": "array", "prefixItems": cells, "minItems": len(cells), "maxItems": len(cells)}
}

// rowSchema is the schema of a row as an object.
func (d *loaded) rowSchema() node {
	properties, required := node{}, []string{}
	for i := range d.model.Schema.Fields {
		f := &d.model.Schema.Fields[i]
		properties[f.Name], required = fieldSchema(f), append(required, f.Name)
	}
	for _, id := range d.model.Schema.IDs {
		properties[id] = node{"type": []string{"string", "number", "boolean", "null"},
			"description": "carried to the answer"}
	}
	return node{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// answerSchema is the schema of an answer in JSON, as answer.go writes it.
func (d *loaded) answerSchema() node {
	prediction := node{"type": "number"}
	switch d.model.Task {
	case machine.Classification:
		prediction = node{"type": "string"}
	case machine.Unsupervised:
		prediction = nil
	}
	row := node{"type": "object"}
	if prediction != nil && len(d.model.Schema.Targets) == 1 {
		row["properties"], row["required"] = node{"prediction": prediction}, []string{"prediction"}
	}
	return node{"type": "object", "required": []string{"model", "columns", "rows"}, "properties": node{
		"model":   node{"type": "string", "description": "SHA-256 of the model file"},
		"columns": node{"type": "array", "items": node{"type": "string"}},
		"rows":    node{"type": "array", "items": node{"oneOf": []node{row, {"type": "array"}}}},
		"surprises": node{"type": "array", "description": "values unlike those of the fit, by column",
			"items": node{"type": "object", "required": []string{"column", "what", "rows", "where"}, "properties": node{
				"column": node{"type": "string"},
				"what": node{"enum": []string{"unseen", "missing", "below", "above", "changed", "unreadable",
					"decimal point"}},
				"rows":  node{"type": "integer", "minimum": 1},
				"where": node{"type": "string", "description": "the first row"},
				"known": node{"type": "string", "description": "of the fit: the end of the range, the constant"}}}}}}
}
