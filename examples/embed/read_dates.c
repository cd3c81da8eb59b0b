/* Reads dates in texts: `read_dates WEIGHTS TEXT...` prints an ISO date for each. All memory is allocated here, none in the model. */
#include "dates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 96, PAD = 0, UNKNOWN = 1, FIRST = 2 };

/* The characters that the model knows, in the order of their ids; those beyond ASCII as they are in Latin-1. */
static const unsigned char ALPHABET[] = " abcdefghijklmnopqrstuvwxyz0123456789\xe4\xe9\xfb\xe7.,-/':;()!";

static int64_t id_of(unsigned c) {
  if ((c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7)) c += 32; /* case is folded */
  for (int k = 0; ALPHABET[k]; k++)
    if (ALPHABET[k] == c) return FIRST + k;
  return UNKNOWN;
}

/* Writes the ids of a text in UTF-8 to a row of 96 and returns their number. */
static int64_t encode(const char *text, int64_t *ids) {
  int64_t n = 0;
  for (const unsigned char *p = (const unsigned char *)text; *p && n < LONGEST; n++) {
    unsigned c = *p++;
    if (c >= 0xc0) {
      c = c < 0xe0 ? (c & 31) << 6 | (*p & 63) : 0xffff;
      while ((*p & 0xc0) == 0x80) p++;
    }
    ids[n] = id_of(c);
  }
  return n;
}

static int64_t greatest(const float *row, int64_t n) {
  int64_t best = 0;
  for (int64_t k = 1; k < n; k++)
    if (row[k] > row[best]) best = k;
  return best;
}

/* Memory at a multiple of 64 bytes, as the arena and the weights have to be; exits where there is none. */
static void *room(uint64_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
  if (!memory) {
    fprintf(stderr, "there is no memory of %llu bytes\n", (unsigned long long)bytes);
    exit(1);
  }
  return memory;
}

static void *content(const char *path, size_t bytes) {
  void *to = room(bytes);
  FILE *file = fopen(path, "rb");
  if (!file || fread(to, 1, bytes, file) != bytes) {
    fprintf(stderr, "%s cannot be read\n", path);
    exit(1);
  }
  fclose(file);
  return to;
}

int main(int count, char **words) {
  if (count < 3) {
    fprintf(stderr, "read_dates WEIGHTS TEXT...\n");
    return 2;
  }
  const void *weights = content(words[1], DATES_WEIGHT_BYTES);
  int64_t batch = count - 2, length = 1;
  int64_t(*rows)[LONGEST] = room(batch * sizeof *rows);
  memset(rows, 0, batch * sizeof *rows); /* PAD */
  for (int64_t b = 0; b < batch; b++) {
    int64_t n = encode(words[2 + b], rows[b]);
    if (n > length) length = n;
  }
  int64_t *ids = room(batch * length * sizeof *ids);
  for (int64_t b = 0; b < batch; b++) memcpy(ids + b * length, rows[b], length * sizeof *ids);

  float *day = room(batch * 31 * sizeof *day), *month = room(batch * 12 * sizeof *month), *year = room(batch * 40 * sizeof *year);
  const void *inputs[DATES_INPUTS] = {[DATES_INPUT_IDS] = ids};
  anyshape_output outputs[DATES_OUTPUTS] = {
      [DATES_OUTPUT_DAY] = {day, batch * 31 * sizeof *day, 0},
      [DATES_OUTPUT_MONTH] = {month, batch * 12 * sizeof *month, 0},
      [DATES_OUTPUT_YEAR] = {year, batch * 40 * sizeof *year, 0},
  };
  anyshape_status status;
  uint64_t arena_bytes = dates_arena_bytes(batch, length); /* before anything runs: a formula of both sizes */
  if (dates_check(batch, length, &status) ||
      dates_run(room(arena_bytes), arena_bytes, weights, inputs, outputs, batch, length, &status)) {
    fprintf(stderr, "%s\n", status.text);
    return 1;
  }
  for (int64_t b = 0; b < batch; b++) {
    for (int k = 0; k < 4; k++) printf("%d", (int)greatest(year + (b * 4 + k) * 10, 10));
    printf("-%02d-%02d\n", 1 + (int)greatest(month + b * 12, 12), 1 + (int)greatest(day + b * 31, 31));
  }
  return 0;
}
