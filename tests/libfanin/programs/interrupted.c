/* A signal interrupts this program every 0.2 ms. Argument: the socket of a device. For each line of standard input it
 * opens the device, prints that, and closes it. */
#define _DEFAULT_SOURCE /* setitimer */
#include <fanin/fanin.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

enum { EVERY_US = 200 };

static void interrupt(int signal)
{
    (void)signal;
}

int main(int count, char **arguments)
{
    struct sigaction action = {.sa_handler = interrupt}; /* no SA_RESTART */
    struct itimerval often = {{0, EVERY_US}, {0, EVERY_US}};
    struct fanin_context *device;

    if (count != 2 || sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &often, NULL))
        return 1;
    for (;;) {
        int letter = getchar();

        if (letter == EOF && feof(stdin))
            return 0;
        clearerr(stdin);
        if (letter != '\n')
            continue;
        enum fanin_status status = fanin_open(arguments[1], &device);

        puts(fanin_status_name(status));
        fflush(stdout);
        if (status)
            return 1;
        fanin_close(device);
    }
}
