/* Uses every part of randfeat.h from C. Prints what is wrong and exits 1. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include "randfeat.h"

static int failures;

#define CHECK(what) do { if (!(what)) { printf("%s:%d: %s\n", __FILE__, __LINE__, #what); failures++; } } while (0)

/* OK checks that a call worked, and frees its error otherwise. */
static void ok(int32_t status, rf_text *err, int line) {
	if (status != RF_OK) {
		printf("line %d: status %d: %s\n", line, status, *err ? *err : "no text");
		failures++;
	}
	rf_free(*err);
	*err = NULL;
}
#define OK(call) ok(call, &err, __LINE__)

/* FAILS checks the kind and the text of an error. */
static void fails(int32_t status, int32_t want, rf_text *err, const char *text, int line) {
	if (status != want || !*err || !strstr(*err, text)) {
		printf("line %d: status %d, want %d with %s: %s\n", line, status, want, text, *err ? *err : "no text");
		failures++;
	}
	rf_free(*err);
	*err = NULL;
}
#define FAILS(call, kind, text) fails(call, kind, &err, text, __LINE__)

static rf_array array(double *p, int64_t rows, int64_t cols) {
	rf_array a = {p, rows, cols, cols * 8, 8, RF_F64};
	return a;
}

enum { N = 64, D = 3 };
static double x[N * D], fortran[N * D];

static void maps(void) {
	rf_text err = NULL, info = NULL;
	uint64_t map = 0;
	OK(rf_map_new("{\"spec\": {\"kernel\": {\"kind\": \"gaussian\"}, \"family\": {\"name\": \"trig\"}, \"dim\": 3, \"m\": 0}, "
		"\"features\": 256}", NULL, NULL, &map, &info, &err));
	CHECK(info && strstr(info, "\"features\":256"));
	rf_free(info);
	double *phi = malloc(N * 256 * 8), *other = malloc(N * 256 * 8), gram[N * N], exact[N * N], scale[N];
	rf_array ax = array(x, N, D), out = array(phi, N, 256), g = array(gram, N, N), e = array(exact, N, N);
	OK(rf_map_apply(map, &ax, &out, NULL, 0, 0, &err));
	rf_array af = {fortran, N, D, 8, N * 8, RF_F64}, out2 = array(other, N, 256);
	OK(rf_map_apply(map, &af, &out2, NULL, 0, 1, &err));
	CHECK(memcmp(phi, other, N * 256 * 8) == 0);
	OK(rf_map_row(map, x + D, D, other, 256, RF_F64, 0, &err));
	CHECK(memcmp(phi + 256, other, 256 * 8) == 0);
	FAILS(rf_map_row(map, x, D - 1, other, 256, RF_F64, 0, &err), RF_VALUE, "columns");
	FAILS(rf_map_row(map, x, D, other, 255, RF_F64, 0, &err), RF_VALUE, "want 1");
	OK(rf_map_apply(map, &ax, &out2, scale, 1, 0, &err));
	OK(rf_map_gram(map, &ax, &ax, &g, 0, &err));
	OK(rf_kernel_gram("{\"kind\": \"gaussian\"}", &ax, &ax, &e, &err));
	double worst = 0;
	for (int i = 0; i < N * N; i++) worst = fmax(worst, fabs(gram[i] - exact[i]));
	CHECK(worst < 0.5 && worst > 0);
	CHECK(exact[0] == 1);
	out.cols = 255;
	FAILS(rf_map_apply(map, &ax, &out, NULL, 0, 0, &err), RF_VALUE, "want 64");
	ax.dtype = RF_I32;
	FAILS(rf_map_apply(map, &ax, &out, NULL, 0, 0, &err), RF_VALUE, "float");
	FAILS(rf_map_new("{", NULL, NULL, &map, NULL, &err), RF_VALUE, "JSON");
	free(phi);
	free(other);
	rf_release(map);
	FAILS(rf_map_apply(map, &ax, &out, NULL, 0, 0, &err), RF_HANDLE, "released");
}

static void models(void) {
	rf_text err = NULL, report = NULL, json = NULL, stage = NULL;
	double target[N], p1[N], p2[N];
	for (int i = 0; i < N; i++) target[i] = sin(x[i * D]) + x[i * D + 1];
	int8_t codes[N];
	for (int i = 0; i < N; i++) codes[i] = (int8_t)(i % 3) - 1; /* -1 is missing */
	rf_array columns[3] = {{x, N, 1, D * 8, 8, RF_F64}, {x + 1, N, 1, D * 8, 8, RF_F64}, {codes, N, 1, 1, 1, RF_I8}};
	rf_array ty = array(target, N, 1);
	uint64_t left = 0, right = 0, table = 0, job = 0, model = 0, again = 0, predictor = 0;
	OK(rf_table_columns(columns, "[{\"name\": \"a\", \"sort\": \"number\"}, {\"name\": \"b\", \"sort\": \"number\"}, "
		"{\"name\": \"c\", \"sort\": \"text\", \"levels\": [\"u\", \"v\"]}]", &left, &err));
	OK(rf_table_columns(&ty, "[{\"name\": \"y\", \"sort\": \"number\"}]", &right, &err));
	OK(rf_table_join(left, right, &table, &err));
	OK(rf_fit(table, "{\"columns\": {\"Targets\": [\"y\"]}, \"folds\": 2}", 1, &job, NULL, NULL, &err));
	int32_t finished = 0;
	while (!finished) {
		int64_t done, total;
		OK(rf_job_wait(job, 50, &finished, &stage, &done, &total, &err));
		rf_free(stage);
		stage = NULL;
	}
	OK(rf_job_result(job, &model, &report, &err));
	CHECK(report && strstr(report, "\"scores\""));
	rf_free(report);
	rf_release(job);
	void *bytes = NULL;
	int64_t size = 0;
	OK(rf_model_write(model, &bytes, &size, &err));
	OK(rf_model_read(bytes, size, &again, &err));
	FAILS(rf_model_read(bytes, size / 2, &job, &err), RF_VALUE, "");
	rf_free(bytes);
	OK(rf_model_info(again, &json, &err));
	CHECK(json && strstr(json, "\"regression\""));
	rf_free(json);
	rf_array o1 = array(p1, N, 1), o2 = array(p2, N, 1);
	uint64_t models[2] = {model, again};
	for (int i = 0; i < 2; i++) {
		OK(rf_predictor_new(models[i], "{\"columns\": [\"a\", \"b\", \"c\"]}", &predictor, &json, &err));
		rf_free(json);
		OK(rf_predict(predictor, left, i ? &o2 : &o1, NULL, NULL, &err));
		FAILS(rf_predict(predictor, right, &o1, NULL, NULL, &err), RF_INPUT, "columns");
		double one = 0, same = 1;
		rf_array row = array(x, 1, 3), to = array(&one, 1, 1);
		OK(rf_predict_rows(predictor, &row, &to, NULL, NULL, &err));
		OK(rf_predict_row(predictor, x, 3, &same, 1, NULL, &err));
		CHECK(one == same);
		FAILS(rf_predict_row(predictor, x, 2, &same, 1, NULL, &err), RF_VALUE, "row of 2 numbers");
		rf_release(predictor);
	}
	CHECK(memcmp(p1, p2, sizeof p1) == 0);
	double error = 0;
	for (int i = 0; i < N; i++) error += fabs(p1[i] - target[i]) / N;
	CHECK(error < 0.2);
	FAILS(rf_predictor_new(model, "{\"columns\": [\"a\"]}", &predictor, NULL, &err), RF_INPUT, "b");
	/* a job that is cancelled */
	OK(rf_fit(table, "{\"columns\": {\"Targets\": [\"y\"]}}", 0, &job, NULL, NULL, &err));
	rf_job_cancel(job);
	int32_t status = RF_OK;
	for (finished = 0; !finished;) {
		rf_free(err);
		err = NULL;
		status = rf_job_wait(job, 1000, &finished, NULL, NULL, NULL, &err);
	}
	CHECK(status == RF_CANCELLED);
	rf_free(err);
	err = NULL;
	rf_release(job);
	rf_release(model);
	rf_release(again);
	rf_release(table);
	rf_release(left);
	rf_release(right);
}

static void forms(void) {
	rf_text err = NULL, value = NULL;
	OK(rf_formula("logrv.trig", "{\"z2\": 0.5}", &value, &err));
	CHECK(value && fabs(atof(value) - log(0.5 * pow(1 - exp(-0.5), 2) * exp(0.5))) < 1e-12);
	rf_free(value);
	FAILS(rf_formula("logrv.trigg", "{}", &value, &err), RF_VALUE, "logrv.trig");
	OK(rf_formulas(&value, &err));
	rf_free(value);
	OK(rf_catalog("families", &value, &err));
	CHECK(value && strstr(value, "\"oprf\""));
	rf_free(value);
	double out[6], zero[2] = {0, 0}, one[2] = {1, 1};
	rf_array a = array(zero, 1, 2), b = array(one, 1, 2), o = array(out, 1, 6);
	OK(rf_moments("{\"kernel\": {\"kind\": \"gaussian\"}, \"family\": {\"name\": \"trig\"}, \"dim\": 2, \"m\": 100, \"seed\": 1}", &a, &b, &o, NULL,
		&err));
	CHECK(fabs(out[0] + 1) < 1e-12);
	FAILS(rf_moments("{\"kernel\": {\"kind\": \"softmax\"}, \"family\": {\"name\": \"relu\"}, \"dim\": 2, \"m\": 4, "
		"\"seed\": 1}", &a, &b, &o, NULL, &err), RF_NO_FORM, "");
	rf_array ax = array(x, N, D);
	OK(rf_advise(&ax, NULL, "{\"families\": [\"trig\"], \"couplings\": [\"iid\"], \"rows\": 8, \"draws\": 4, \"brief\": true}",
		NULL, &value, &err));
	CHECK(value && strstr(value, "\"ranking\""));
	rf_free(value);
}

static void attention(void) {
	rf_text err = NULL, json = NULL;
	enum { L = 48, E = 4 };
	float q[L * E], out[L * E], same[L * E];
	for (int i = 0; i < L * E; i++) q[i] = (float)x[i];
	rf_seq s = {q, 1, 1, L, E, L * E, L * E, E, RF_F32}, o = s, p = s;
	o.data = out;
	p.data = same;
	OK(rf_attention_run(0, &s, &s, &s, &o, 1, 0, 0, NULL, &json, &err));
	CHECK(json && strstr(json, "\"rows\":48"));
	rf_free(json);
	CHECK(memcmp(out, q, E * sizeof(float)) == 0); /* the first query sees its own key alone */
	uint64_t chosen = 0, again = 0;
	OK(rf_attention_choose(&s, &s, &s, "{\"tol\": 0.1, \"by_cost\": true}", 1, NULL, &chosen, &json, &err));
	OK(rf_attention_read(json, &again, &err));
	rf_free(json);
	OK(rf_attention_run(chosen, &s, &s, &s, &o, 0, 0, 0, NULL, NULL, &err));
	OK(rf_attention_run(again, &s, &s, &s, &p, 0, 0, 0, NULL, NULL, &err));
	CHECK(memcmp(out, same, sizeof out) == 0);
	s.dtype = RF_F64;
	FAILS(rf_attention_run(0, &s, &s, &s, &o, 0, 0, 0, NULL, NULL, &err), RF_VALUE, "float32");
	rf_release(chosen);
	rf_release(again);
}

/* An Arrow stream of one batch with a column of texts and one of numbers, of which the second is missing. */
static int32_t released;
static void release_schema(struct ArrowSchema *s) { s->release = NULL; }
static void release_array(struct ArrowArray *a) { a->release = NULL; released++; }
static struct ArrowSchema text_schema = {.format = "u", .name = "t"}, number_schema = {.format = "g", .name = "n"};
static struct ArrowSchema *schemas[] = {&text_schema, &number_schema};
static int32_t offsets[] = {0, 1, 1, 3};
static uint8_t valid[] = {5};
static double numbers[] = {1, 2, 3};
static const void *none[] = {NULL}, *texts[] = {NULL, offsets, "abc"}, *values[] = {valid, numbers};
static struct ArrowArray text_array = {3, 0, 0, 3, 0, texts}, number_array = {3, 1, 0, 2, 0, values};
static struct ArrowArray *arrays[] = {&text_array, &number_array};
static int batches;
static int get_schema(struct ArrowArrayStream *s, struct ArrowSchema *out) {
	(void)s;
	*out = (struct ArrowSchema){.format = "+s", .name = "", .n_children = 2, .children = schemas, .release = release_schema};
	return 0;
}
static int get_next(struct ArrowArrayStream *s, struct ArrowArray *out) {
	(void)s;
	memset(out, 0, sizeof *out);
	if (batches++ == 0)
		*out = (struct ArrowArray){3, 0, 0, 1, 2, none, arrays, NULL, release_array, NULL};
	return 0;
}
static const char *last_error(struct ArrowArrayStream *s) { (void)s; return "no error"; }
static void release_stream(struct ArrowArrayStream *s) { s->release = NULL; }

static void arrow(void) {
	rf_text err = NULL, info = NULL;
	struct ArrowArrayStream s = {get_schema, get_next, last_error, release_stream, NULL};
	uint64_t table = 0;
	OK(rf_table_arrow(&s, &table, &info, &err));
	CHECK(info && strcmp(info, "{\"columns\":[\"t\",\"n\"],\"rows\":3}") == 0);
	rf_free(info);
	CHECK(s.release == NULL && released == 0);
	rf_release(table);
	CHECK(released == 1);
	FAILS(rf_table_arrow(&s, &table, NULL, &err), RF_VALUE, "released");
}

static void *thread(void *unused) {
	(void)unused;
	for (int i = 0; i < 3; i++) maps();
	return NULL;
}

int main(void) {
	if (rf_abi() != RF_ABI) {
		printf("the library has interface %d, the header %d\n", rf_abi(), RF_ABI);
		return 1;
	}
	uint32_t state = 1;
	for (int i = 0; i < N * D; i++) {
		state = state * 1664525u + 1013904223u;
		x[i] = state / 4294967296.0 * 4 - 2;
		fortran[i % D * N + i / D] = x[i];
	}
	int64_t live = rf_live();
	rf_text err = NULL;
	maps();
	models();
	forms();
	attention();
	arrow();
	pthread_t threads[4];
	for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, thread, NULL);
	for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
	FAILS(rf_test_panic(0, &err), RF_INTERNAL, "a test of the calling goroutine");
	FAILS(rf_test_panic(1, &err), RF_INTERNAL, "a test of a worker");
	rf_collect();
	CHECK(rf_live() == live);
	if (failures) return 1;
	puts("ok");
	return 0;
}
