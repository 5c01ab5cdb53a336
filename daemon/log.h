/*
 * The daemon's log: one line for each thing that an operator should know, to standard error.
 */
#ifndef SKADE_LOG_H
#define SKADE_LOG_H

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG }; /* order of the choice in options.def */

void log_set_level(enum log_level level);

/* Any thread.  A line is written with one write(), so that lines of threads don't mix. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
